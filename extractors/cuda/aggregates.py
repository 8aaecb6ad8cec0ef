"""Values of several elements: what stands in braces, zeros, and extents of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.core import pure
from extractors.cuda.memory import MemoryReader
from extractors.cuda.type_traits import alike_types, answer, question, spelled_type, truth
from extractors.cuda.values import BOOL, INT, UNKNOWN, Fixed, Frame, Kind, Named, Val
from kb.ops import OpKind

_SIDES = ("lhs", "rhs")

LIMITS: dict[tuple[str, str], int | float] = {
    ("f32", "max"): 3.4028234663852886e38, ("f32", "lowest"): -3.4028234663852886e38,
    ("f32", "epsilon"): 1.1920928955078125e-07, ("f32", "min"): 1.1754943508222875e-38,
    ("i32", "max"): 2**31 - 1, ("i32", "min"): -(2**31), ("i32", "lowest"): -(2**31),
    ("u32", "max"): 2**32 - 1, ("i64", "max"): 2**63 - 1, ("f16", "max"): 65504.0,
    ("f16", "lowest"): -65504.0, ("u8", "max"): 255, ("i8", "max"): 127, ("i8", "min"): -128,
}  # fmt: skip
"""Limits of number types. Source: ISO C++, header limits, for the types of IEEE 754."""

NAMED_LIMITS = {"INFINITY": float("inf"), "FLT_MAX": 3.4028234663852886e38, "INT_MAX": 2**31 - 1,
           "UINT_MAX": 2**32 - 1, "FLT_MIN": 1.1754943508222875e-38, "INT_MIN": -(2**31),
           "CUDART_INF_F": float("inf"), "M_LOG2E": 1.4426950408889634, "warpSize": 32,
           "FLT_EPSILON": 1.1920928955078125e-07, "M_PI": 3.141592653589793,
           "M_SQRT1_2": 0.7071067811865476, "C10_WARP_SIZE": 32, "INT32_MAX": 2**31 - 1,
           "INT32_MIN": -(2**31), "UINT32_MAX": 2**32 - 1, "INT64_MAX": 2**63 - 1,
           "CUDART_L2E_F": 1.4426950408889634, "CUDART_PI_F": 3.141592653589793, "__NV_NOSAT": 0,
           "M_LN2": 0.6931471805599453, "M_LN10": 2.302585092994046, "M_E": 2.718281828459045,
           "M_LOG10E": 0.4342944819032518, "M_SQRT2": 1.4142135623730951,
           "M_2_SQRTPI": 1.1283791670955126, "M_PI_2": 1.5707963267948966,
           "M_PI_4": 0.7853981633974483, "M_1_PI": 0.3183098861837907,
           "M_2_PI": 0.6366197723675814, "CUDART_LN2_F": 0.6931471805599453,
           "CUDART_SQRT_TWO_F": 1.4142135623730951, "CUDART_SQRT_HALF_F": 0.7071067811865476,
           "HUGE_VALF": float("inf"), "UINT64_MAX": 2**64 - 1, "INT64_MIN": -(2**63),
           "LLONG_MAX": 2**63 - 1, "UINT8_MAX": 255, "INT8_MAX": 127, "INT8_MIN": -128,
           "INT16_MAX": 2**15 - 1, "INT16_MIN": -(2**15), "UINT16_MAX": 2**16 - 1,
           "__NV_SATFINITE": 1, "__NV_E4M3": 0, "__NV_E5M2": 1}  # fmt: skip
"""Names that headers give to numbers. Source: ISO C, float.h, limits.h and stdint.h; POSIX, math.h;
CUDA Math API, math_constants.h and cuda_fp8.h."""

_NAN = 0x7FC00000
"""Bits of a number that is none. Source: IEEE 754, binary32."""

_NOWHERE = n.Place(0, 0, 0, "")
MAX_DEPTH = 24
"""Structs whose constants rest on constants of other structs."""


def designated(item: n.Expr, place: str) -> tuple[str, n.Expr]:
    """The field that an item in braces is for, and its value: `.field = value` names it."""
    if isinstance(item, n.Assign) and isinstance(item.target, n.Name):
        if item.target.text.startswith("."):
            return item.target.text[1:], item.value
    return place, item


class AggregateReader(MemoryReader):
    """Aggregates and their extents."""

    def braces(self, node: n.Braces, kind: Kind, at: n.Place, hint: str = "") -> Val:
        """A value in braces: zeros for an empty one or `{0}` where there is room for more."""
        named = not self.fields_of(kind)  # Of such a struct no field is known by its name.
        given = [designated(i, "")[1] if named else i for i in node.items]
        items = [i for i in given if not isinstance(i, n.Braces)]
        if kind.scalar and kind != UNKNOWN:
            if not given:
                return self.constant(0, at, kind, hint)
            return self.convert(self.read(items[0], hint), kind, at, hint) if items else \
                self.constant(0, at, kind, hint)  # fmt: skip
        zero = all(isinstance(i, n.Constant) and not i.value for i in items)
        if zero and len(items) == len(given) <= 1:
            return self.zeros(kind, at, hint)
        values = [self.braces(i, kind.element, at) if isinstance(i, n.Braces) else self.read(i)
                  for i in given]  # fmt: skip
        return self.one(OpKind.VECTOR, [("item", v.name) for v in values], at, kind, hint)

    def zeros(self, kind: Kind, at: n.Place, hint: str = "") -> Val:
        """A value whose every element is zero."""
        extents = [("item", self.extent_value(e, at).name) for e in kind.shape]
        shape = self.one(OpKind.TUPLE, extents, at, UNKNOWN)
        operands = [("shape", shape.name)]
        if kind.dtype != "?":
            operands.append(("dtype", self.dtype_value(kind, at)))
        return self.one(OpKind.ZEROS, operands, at, kind, hint)

    def extent(self, size: n.Expr | None, frame: Frame) -> str:
        """Extent of an array: a number or a name; what is computed is read where it is needed."""
        if size is None:
            return "?"
        if isinstance(size, n.Constant) and isinstance(size.value, int):
            return str(size.value)
        with self.inside(frame), self.writer.region() as opened:
            value = self.read(size)
        if isinstance(value.const, int):
            return str(int(value.const))
        if not pure([op.kind for op in opened.ops]):
            return "?"
        self.writer.current.ops.extend(opened.ops)
        text = self.spelled(size, frame) if value.static else "?"
        text = value.text if text == "?" and value.static and value.text else text
        name = value.name if text == "?" else text
        frame.scopes[0].setdefault(name, value)
        if value.static:
            self.sizes.setdefault(name, (size, frame))
        return name

    def limit(self, name: str, at: n.Place, hint: str) -> Val | None:
        """`std::numeric_limits<T>::infinity()` and its kin."""
        head, _, last = name.rpartition("::")
        base, _, written = head.partition("<")
        if not base.endswith("numeric_limits") or not written.endswith(">"):
            return None
        kind = self.kind(n.CType(written[:-1].strip()), self.frame)
        if last == "infinity":
            return self.constant(float("inf"), at, kind, hint)
        if (opened := self._symbol(kind, at)) is not None:
            return self._of_parameter(opened, last, at, hint, kind)
        if last == "quiet_NaN" and kind.dtype == "f32":
            bits = self.constant(_NAN, at, Kind("u32"))
            return self.one(OpKind.BITCAST, [("x", bits.name)], at, kind, hint)
        value = LIMITS.get((kind.dtype, last))
        return None if value is None else self.constant(value, at, kind, hint)

    def same_type(self, node: n.Name, hint: str) -> Val | None:
        """`std::is_same_v<A, B>`, or a trait of one type; None where what a type is is not said."""
        text, written = node.text, node.arguments
        if node.scope is not None and text.endswith("::value"):
            text, written = f"{node.scope.name}::value", node.scope.arguments
        if asked := question(text):
            of = self.arguments(written, self.frame, 0)
            told = answer(asked, of)
            if told is not None:
                return self.constant(told, node.at, BOOL, hint)
            opened = self._symbol(of[0], node.at) if isinstance(of[0], Kind) else None
            return self._of_parameter(opened, asked, node.at, hint, BOOL) if opened else None
        if not text.endswith(("is_same_v", "is_same::value")) or len(written) != 2:
            return None
        kinds = [k for k in self.arguments(written, self.frame, 0) if isinstance(k, Kind)]
        if len(kinds) != 2:
            return None
        same = alike_types(kinds[0], kinds[1], self.library)
        if same is not None:
            return self.constant(same, node.at, BOOL, hint)
        sides = [(role, self._type(k, node.at)) for role, k in zip(_SIDES, kinds, strict=True)]
        if not all(name for _, name in sides):
            return None
        return replace(self.one(OpKind.EQ, sides, node.at, BOOL, hint), static=True)

    def _type(self, kind: Kind, at: n.Place) -> str:
        """A type as a value: of a member of a type parameter that member; empty where nothing is
        known of it."""
        owner, _, member = kind.record.rpartition("::")
        if kind.to is None and member and owner in self.symbols:
            return self._of_parameter(self.symbols[owner], member, at, "").name
        if kind.dtype != "?" and kind.to is None and not kind.shape:
            return self.dtype_value(kind, at)
        name = spelled_type(kind)
        named = [("name", name)]
        return self.one(OpKind.DTYPE, (), at, UNKNOWN, "", named).name if name else ""

    def static_member(
        self, head: str, name: str, at: n.Place, hint: str, scope: n.CType | None = None
    ) -> Val | None:
        """`Type::name`: a constant of a struct, or a member of a type parameter, kept as one."""
        bound = self.frame.find(head)
        if isinstance(bound, Named):
            kind = self.kind(bound.type, bound.frame)
        elif isinstance(bound, Kind):
            kind = bound
        elif isinstance(bound, Val):
            return self._of_parameter(bound, name, at, hint)
        else:
            kind = self.kind(scope or n.CType(head), self.frame)
        if kind.dtype.startswith("dtypeof("):
            held = self._symbol(kind, at)
            return self._of_parameter(held, name, at, hint) if held is not None else None
        return self.constant_of(kind, name, at, hint)

    def constant_of(self, kind: Kind, name: str, at: n.Place, hint: str) -> Val | None:
        """A constant of a struct; None when it has none by that name."""
        for record in self._surely(kind):
            if name == "value" and (told := truth(record)) is not None:
                opened = any(isinstance(a, Kind) and _opened(a) for a in kind.arguments)
                several = self.fitting(self.library.records(kind.record), kind.arguments)
                unsure = opened and len(several) > 1
                return None if unsure else self.constant(told, at, BOOL, hint)
            for one in record.fields:
                if one.name == name and one.value is not None:
                    inner = self.of_record(record, kind.arguments, self.frame.depth)
                    if inner.depth > MAX_DEPTH:
                        return None
                    with self.inside(inner):
                        value = self.read(one.value, hint)
                        return self.convert(value, self.kind(one.type, inner), at, hint)
        return self._of_open(kind, name, at, hint)

    def _surely(self, kind: Kind) -> list[n.Record]:
        """The specialisation of a struct that its arguments surely fit, else the general one."""
        records = self.library.records(kind.record) if kind.record else []
        sure = [r for r in records if r.specialised and self.fits(r, kind.arguments)]
        general = [r for r in records if not r.specialised]
        return [min(sure, key=lambda one: len(one.template))] if sure else general

    def _of_open(self, kind: Kind, name: str, at: n.Place, hint: str) -> Val | None:
        """A constant of a struct that is written for single types or numbers, where only the
        instantiation tells which one: a member of that one. A definition that has nothing by that
        name is none that is meant."""
        records = self.fitting(self.library.records(kind.record), kind.arguments)
        found = [f for record in records for f in record.fields if f.name == name and f.value]
        if not found or any(_says(one) for one in records if name not in _named(one)):
            return None
        if (told := self._agreed(kind, records, name)) is not None:
            return self.constant(told, at, INT, hint)
        arguments = [
            one if isinstance(one, Val) else self._symbol(one, at) for one in kind.arguments
        ]
        opened = [one for one in arguments if one is not None and _is_open(one)]
        if not opened:
            return None
        kinds = {self.kind(one.type, Frame("file")) for one in found}
        of = kinds.pop() if len(kinds) == 1 else UNKNOWN
        by_number = opened[0] in kind.arguments
        whole = f"{kind.record}.{name}" if by_number else name
        return self._of_parameter(opened[0], whole, at, hint, of)

    def _symbol(self, kind: Kind, at: n.Place) -> Val | None:
        """The type parameter that a type is, or the member of one."""
        name = "" if kind.shape or kind.to is not None else _opened(kind)
        head, _, member = name.partition(".")
        if name in self.symbols or head not in self.symbols:
            return self.symbols.get(name)
        return self._of_parameter(self.symbols[head], member, at, "")

    def _agreed(self, kind: Kind, records: Sequence[n.Record], name: str) -> int | None:
        """The number that every definition gives that has the constant."""
        if len(records) < 2 or (kind, name) in self.agreed:
            return self.agreed.get((kind, name))
        told = set[object]()
        for record in records:
            inner = self.of_record(record, kind.arguments, self.frame.depth)
            values = [f.value for f in record.fields if f.name == name and f.value is not None]
            with self.writer.trial():
                few = values[: inner.depth <= MAX_DEPTH]
                told |= {self.argument(one, inner).const for one in few}
        only = told.pop() if len(told) == 1 else None
        known = only if isinstance(only, int) and not isinstance(only, bool) else None
        self.agreed[kind, name] = known
        return known

    def member_of(self, parameter: str, name: str) -> Val:
        """A constant of the struct that a type parameter stands for."""
        return self._of_parameter(self.symbols[parameter], name, _NOWHERE, "")

    def trait_methods(self, kind: Kind, name: str) -> list[n.Definition]:
        """Methods of the struct that an open type stands for."""
        record = self.traits.get(_opened(kind))
        return [one for one in record.methods if one.name == name] if record is not None else []

    def of_trait(self, kind: Kind) -> Frame:
        """The frame of the struct that an open type stands for: its own template parameters are
        what the call decides."""
        parameter = _opened(kind)
        record = self.traits[parameter]
        given = tuple(
            Kind(f"dtypeof({parameter}.{one.name})")
            if one.dtype == "typename"
            else self.member_of(parameter, one.name)
            for one in record.template
        )
        return self.of_record(record, given, self.frame.depth)

    def _of_parameter(
        self, parameter: Val, name: str, at: n.Place, hint: str, kind: Kind = UNKNOWN
    ) -> Val:
        """A member of a type that only the instantiation tells: known at compile time."""
        operands = [("x", parameter.name)]
        made = self.one(OpKind.ATTRIBUTE, operands, at, kind, hint, [("name", name)])
        return replace(made, static=True, text=f"{parameter.name}.{name}")

    def argument(self, node: n.Expr, frame: Frame) -> Val:
        """The value of a template argument; what does more than compute is not one."""
        before = dict(self.names)
        with self.inside(frame), self.writer.region() as opened:
            value = self.read(node)
        self.names = before
        if value.const is None and pure([op.kind for op in opened.ops]):
            self.writer.current.ops.extend(opened.ops)
            text = value.text or self.spelled(node, frame)
            return replace(value, text="" if text == "?" else text)
        if value.const is None:
            return Val("")
        made = self.constant(value.const, node.at, value.kind)
        return replace(made, text=str(value.const))

    def spelled(self, node: n.Expr, frame: Frame, depth: int = 0) -> str:
        """An expression over compile-time parameters as text, `?` when it is anything else."""
        match node:
            case n.Constant(value=int() as value):
                return str(value)
            case n.Name(text=text):
                found = frame.find(text)
                if isinstance(found, Val):
                    return str(found.const) if found.const is not None else found.text or "?"
                if isinstance(found, Fixed) and depth < 16:
                    inner = self.spelled(found.value, found.frame, depth + 1)
                    return inner if inner.isalnum() or inner == "?" else f"({inner})"
            case n.Binary(operator="+" | "-" | "*" | "/" | "%" as operator, left=left, right=right):
                sides = [self.spelled(side, frame, depth + 1) for side in (left, right)]
                if depth < 16 and "?" not in sides:
                    sign = "//" if operator == "/" else operator
                    return (
                        f"({sides[0]} {sign} {sides[1]})"
                        if depth
                        else f"{sides[0]} {sign} {sides[1]}"
                    )
            case n.Cast(operand=operand):
                return self.spelled(operand, frame, depth + 1)
        return "?"


def _says(record: n.Record) -> bool:
    """Whether a definition has any members, or may have those of a base."""
    return bool(record.fields or record.methods or record.aliases or record.bases)


def _named(record: n.Record) -> set[str]:
    return {one.name for one in record.fields if one.value is not None}


def _is_open(value: Val) -> bool:
    """Known at compile time, and not here."""
    return value.static and value.const is None and bool(value.text)


def _opened(kind: Kind) -> str:
    """The type parameter that a type is of; empty for a type that is known."""
    return kind.dtype[8:-1] if kind.dtype.startswith("dtypeof(") else ""
