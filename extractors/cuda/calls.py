"""Calls: functions of the language by table, helpers and lambdas read in place, the rest opaque."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda import overloads
from extractors.cuda.binding import MAX_DEPTH
from extractors.cuda.fields import generality, spelled_out
from extractors.cuda.groups import ATOMIC, NUMBERS, SILENT, converted
from extractors.cuda.open_structs import conversion
from extractors.cuda.packs import expanded, takes
from extractors.cuda.returns import named_before
from extractors.cuda.same_work import shown_by
from extractors.cuda.temporaries import TemporaryReader
from extractors.cuda.values import (
    BOOL,
    UNKNOWN,
    Callee,
    Closure,
    Frame,
    Group,
    Kind,
    Memory,
    Named,
    Slot,
    Val,
    Where,
)  # fmt: skip
from kb.dialects.cuda import APPROXIMATE, ATTRIBUTES, CUDA, PAIRS, RESULT_DTYPES, VECTORS, row_of
from kb.dialects.cuda_libraries import CONVERTERS
from kb.dialects.model import Row
from kb.ir import Literal
from kb.ops import COMPARISONS, SIDES, OpKind

_NOWHERE = n.Place(0, 0, 0, "")


class CallReader(TemporaryReader):
    """Calls of every sort."""

    def call(self, node: n.Call, hint: str) -> Val:
        """The value of a call."""
        function = node.function
        if any(isinstance(one, n.Unread) for one in node.arguments):
            node = replace(node, arguments=expanded(node.arguments, self.frame))
        if node.launch:
            return self.opaque("kernel launch", node.arguments, node.at, hint)
        if (tensor := self.tensor_call(node, hint)) is not None:
            return tensor
        if isinstance(function, n.Field):
            return self._method(node, function, hint)
        if isinstance(function, n.Name):
            bound = self.frame.find(function.text)
            if isinstance(bound, Closure):
                return self._closure(node, bound, hint)
            if isinstance(bound, Callee):
                read = self.helper(node, bound.candidates, function.arguments)
                return read or self.opaque(function.text, node.arguments, node.at, hint)
            if isinstance(bound, Slot) and bound.kind.record in CONVERTERS:
                return self._converting(node, bound.kind, hint)
            if isinstance(bound, Slot | Memory) and bound.kind.record:
                called = n.Field(node.at, function, "operator()", function.arguments)
                read = self.member(node, called, bound)
                if read is not None:
                    return read
            row = row_of(function.text)
            if row is not None and not node.arguments and "x" in row.signature.split():
                row = None  # of what it works on nothing is left
            if row is not None and bound is None:
                own = overloads.own_overload(self, node, function.text)
                read = self.helper(node, own, function.arguments) if own else None
                return read or self.by_row(node, row, hint)
            return self._named(node, function, hint)
        if isinstance(function, n.Lambda):
            return self._closure(node, Closure(function, self.frame), hint)
        made = self.held_as(function) if isinstance(function, n.Call | n.Braces) else None
        if made is not None:
            return self.call(replace(node, function=made), hint)
        return self.opaque("call of a value", (function, *node.arguments), node.at, hint)

    def _converting(self, node: n.Call, kind: Kind, hint: str) -> Val:
        """A struct that converts the value that it is called with."""
        target = kind.arguments[0] if kind.arguments else UNKNOWN
        if len(node.arguments) != 1 or not isinstance(target, Kind):
            return self.opaque("converter", node.arguments, node.at, hint, whole=node)
        value = self.read(node.arguments[0])
        return self.cast(value, replace(target, shape=value.kind.shape), node.at, hint)

    def _named(self, node: n.Call, function: n.Name, hint: str) -> Val:
        """A helper, a conversion to a named type, a collective of a group, or nothing known."""
        if len(node.arguments) == 1 and self.is_type(function):
            kind = n.CType(function.text, function.arguments)
            return self.read(n.Cast(node.at, kind, node.arguments[0], "construct"), hint)
        if not node.arguments and self.library.records(function.text):
            made = self.kind(n.CType(function.text, function.arguments), self.frame)
            return self.braces(n.Braces(node.at, (), None), made, node.at, hint)
        done = (
            self.limit(function.text, node.at, hint)
            or self.made_of(node, function, hint)
            or self._group_call(node, function, hint)
            or self.library_call(node, function.text, hint)
            or self.vector_copy(node, function)
            or self._both(node, function.text)
            or self.half_of(node, function.text, hint)
        )
        if done is not None:
            return done
        candidates, frame = self.candidates(function)
        found = self.helper(node, candidates, function.arguments, frame)
        if found is None and frame is None and candidates:
            others = overloads.elsewhere(self, function.text, candidates)
            read = (self.helper(node, one, function.arguments) for one in others)
            found = next((one for one in read if one is not None), None)
        found = found or (conversion(self, node, function) if not candidates else None)
        if found is not None:
            return found
        return self.opaque(self.unknown(function), node.arguments, node.at, hint, whole=node)

    def returned_place(self, node: n.Call) -> Where | None:
        """The place behind the reference that a method or function gives that does nothing before
        it returns."""
        function, frame = node.function, None
        found: list[n.Definition] = []
        if isinstance(function, n.Name) and self.frame.find(function.text) is None:
            found = [f for f in self.library.functions(function.text) if not f.owner]
            if not found and self.frame.owner:
                found, frame = self.candidates(function)
        fitting = [f for f in found if len(f.parameters) == len(node.arguments)]
        if len(fitting) > 1 and overloads.same_but_for_const(fitting):
            fitting = [f for f in fitting if f.result.reference and not f.result.const]
        if len(fitting) != 1 or not fitting[0].result.reference or fitting[0] in self.trail:
            return None
        named, value = named_before(fitting[0])
        if value is None:
            return None
        inner = frame or Frame(fitting[0].name, depth=self.frame.depth + 1)
        names, found_at = dict(self.names), None
        count = self.writer.count
        with self.writer.region() as opened:
            if inner.depth <= MAX_DEPTH and self.bound(fitting[0], node, (), inner):
                with self.inside(inner, node.at):
                    for one in named:
                        self.statement(one)
                    found_at = self.place(value)
        if found_at is None:
            self.names, self.writer.count = names, count
        else:
            self.writer.current.ops.extend(opened.ops)
        return found_at

    def _both(self, node: n.Call, name: str) -> Val | None:
        """A function that stores two results behind pointers; None when it is none."""
        kinds = PAIRS.get(name.removeprefix("::"))
        if kinds is None:
            return None
        targets = [self.place(n.Unary(node.at, "*", one)) for one in node.arguments[1:]]
        if len(kinds) != len(targets):
            return None
        value = self.read(node.arguments[0])
        for kind, target in zip(kinds, targets, strict=True):
            operands = [("x", value.name)]
            if name in APPROXIMATE:
                operands.append(("rounding", self.approximate(node.at)))
            made = self.one(kind, operands, node.at, value.kind)
            if target is not None:
                self.store(target, made, node.at)
        return Val("")

    def candidates(self, function: n.Name) -> tuple[list[n.Definition], Frame | None]:
        """Functions that a name may mean: those of the struct before the name, or free ones. Of a
        struct that is written for single types only, the first stands for all that look alike."""
        head, _, last = function.text.rpartition("::")
        owner = head.partition("<")[0] or self.frame.owner
        if owner:
            written = function.scope or n.CType(owner)
            bound = self.frame.find(owner)
            kind = self.kind(bound.type, bound.frame) if isinstance(bound, Named) else (
                bound if isinstance(bound, Kind) else self.kind(written, self.frame)
            )  # fmt: skip
            records = self._records(kind)
            methods = [m for r in records for m in r.methods if m.name == last]
            if methods:
                # Named with a struct before it, a method that is not static is one of a base.
                inherited = head and not any("static" in m.words for m in methods)
                own = self.frame.find("this") if not head or inherited else None
                inner = own.kind if isinstance(own, Slot | Memory) and not head else kind
                frame = self.of_record(records[0], inner.arguments, self.frame.depth)
                if isinstance(own, Slot | Memory):
                    self._own(frame, records[0], own, _NOWHERE)
                return methods, frame
            if methods := self.trait_methods(kind, last):
                return methods, self.of_trait(kind)
            outside = [
                one for one in self.library.functions(last)
                if one.instance and one.instance == head.rpartition("::")[2]
            ]  # fmt: skip
            if outside:
                return outside, None
            if head and not any(r.specialised for r in records):
                every = self.library.records(kind.record)
                methods = [m for r in every for m in r.methods if m.name == last]
                one = shown_by(methods, self.library)
                shown = overloads.alike(methods) or ([one] if one is not None else [])
                if shown:
                    return shown, self.of_record(every[0], (), self.frame.depth)
            if head and records:
                return [], None
        free = [f for f in self.library.functions(last) if not f.owner or f.owner == owner]
        return overloads.in_space(self, free, function.text), None

    def _records(self, kind: Kind) -> list[n.Record]:
        """The definition of a struct for its arguments: the specialisation that they fit, else the
        general one, or where that is empty the one for any type of a sort."""
        found = self.library.records(kind.record) if kind.record else []
        told = [(r, self.fits(r, kind.arguments)) for r in found if r.specialised]
        if sure := [r for r, fits in told if fits]:
            return [min(sure, key=lambda one: len(one.template))]
        general = [r for r in found if not r.specialised]
        sorts = [r for r, fits in told if fits is None and any(t.asked for t in r.template)]
        return sorts[:1] if sorts and not any(r.methods for r in general) else general

    def is_type(self, name: n.Name) -> bool:
        found = self.frame.find(name.text)
        if isinstance(found, Named | Kind):
            return True
        if isinstance(found, Val):
            return found.kind.record == "typename"
        if (head := name.text.rpartition("::")[0]) and self.frame.find(head) is not None:
            return self.kind(n.CType(name.text), self.frame).dtype.startswith("dtypeof(")
        named = name.text in CUDA.dtypes or name.text in VECTORS
        return found is None and (named or self.library.alias(name.text) is not None)

    # -- the language

    def by_row(self, node: n.Call, row: Row, hint: str) -> Val:
        """One row of the table: arguments become operands by role."""
        roles = list(row.parameters)
        more = len(node.arguments) > len(roles) and not (roles and roles[-1].variadic)
        if more or len(node.arguments) < sum(one.role in SIDES for one in roles):
            written = node.function.arguments if isinstance(node.function, n.Name) else ()
            found = self.helper(node, self.library.functions(row.path), written)
            if found is not None or row.kind is not OpKind.CAST or not node.arguments:
                return found or self.opaque(row.path, node.arguments, node.at, hint)
            node = replace(node, arguments=node.arguments[:1])  # The others say how it rounds.
        values = [self.read(argument) for argument in node.arguments]
        if row.path.endswith("f"):  # A function of 32-bit floats takes a literal as one.
            wide = [v.const is not None and v.kind.dtype == "f64" for v in values]
            values = [self.convert(v, Kind("f32"), node.at) if w else v
                      for v, w in zip(values, wide, strict=True)]  # fmt: skip
        if row.kind is OpKind.MMA:
            return self.opaque(row.path, node.arguments, node.at, hint)
        operands = [
            (roles[min(i, len(roles) - 1)].role, value.name) for i, value in enumerate(values)
        ]
        if row.kind is OpKind.DIV and len(roles) == 1 and values:
            operands.insert(0, ("lhs", self.constant(1.0, node.at, values[0].kind).name))
        attributes: list[tuple[str, Literal]] = [*ATTRIBUTES.get(row.path, ())]
        pointer = values[0] if values and roles[0].role == "pointer" else None
        if pointer is not None and pointer.kind.to is not None:
            attributes += self.access(Memory(pointer, pointer.kind.to))
        if row.path in APPROXIMATE:
            operands.append(("rounding", self.approximate(node.at)))
        if CUDA.by_kind[row.kind][0] is not row or row.path in CUDA.roundings:
            attributes.append(("spelling", row.path))
        kind = self._result(row, values)
        if kind is None:
            self.writer.emit(row.kind, operands, node.at, (), attributes)
            return Val("")
        made = self.one(row.kind, operands, node.at, kind, hint, attributes)
        self.count_on(row.kind, made, values)
        return replace(made, static=bool(values) and all(v.static for v in values))

    def approximate(self, at: n.Place) -> str:
        """The rounding operand of a function that rounds approximately."""
        return self.one(OpKind.ENUM, (), at, UNKNOWN, "", [("name", "rounding.approx")]).name

    def _result(self, row: Row, values: Sequence[Val]) -> Kind | None:
        """Kind of what a function of the language gives; None when it gives nothing."""
        if row.path in RESULT_DTYPES:
            return converted(row, [value.kind for value in values])
        if row.kind in SILENT:
            return None
        if row.kind in (OpKind.LOAD, *ATOMIC):
            return (values[0].kind.to or UNKNOWN) if values else UNKNOWN
        if row.kind in NUMBERS:
            return NUMBERS[row.kind]
        if row.kind in COMPARISONS or row.kind is OpKind.ISNAN:
            return BOOL
        place = [p.role for p in row.parameters]
        index = place.index("x") if "x" in place else 0
        if not values or index >= len(values):
            return UNKNOWN
        kinds = [v.kind for v in values if v.const is None] or [values[index].kind]
        return kinds[0] if "x" not in place else values[index].kind

    # -- methods

    def _method(self, node: n.Call, function: n.Field, hint: str) -> Val:
        operand = function.operand
        if isinstance(operand, n.Name):
            bound = self.frame.find(operand.text)
            if isinstance(bound, Group):
                return self._group_method(node, bound, function.name, hint)
            if isinstance(bound, Closure) and function.name == "operator()":
                return self._closure(node, bound, hint, function.arguments)
        made = self.group(operand)
        if made is not None:
            return self._group_method(node, made, function.name, hint)
        optional = self.optional(node, function, hint)
        if optional is not None:
            return optional
        collected = self.collected(node, function, hint)
        if collected is not None:
            return collected
        where = self.place(operand)
        held = self.held_as(operand) if where is None and isinstance(operand, n.Call) else None
        if held is not None:
            function = replace(function, operand=held)
            return self._method(replace(node, function=function), function, hint)
        found = self.member(node, function, where) or self.barrier(node, function)
        if found is not None:
            return found
        what = f".{function.name}"
        return self.opaque(what, (operand, *node.arguments), node.at, hint, whole=node)

    def member(self, node: n.Call, function: n.Field, where: object) -> Val | None:
        """A method of a struct that the library knows, read in place."""
        if not isinstance(where, Slot | Memory) or not where.kind.record:
            return None
        records = self.library.records(where.kind.record)
        if not records:
            return None
        vector = self.vector_method(node, function.name, where, records)
        if vector is not None:
            return vector
        told = self.told.get(spelled_out(where.kind))
        possible = [told] if told else self.fitting(records, where.kind.arguments) or records
        possible.sort(key=generality)
        named = [(r, [m for m in r.methods if m.name == function.name]) for r in possible]
        record, methods = next(
            (pair for pair in named if any(takes(m, len(node.arguments)) for m in pair[1])),
            named[0],
        )
        several = [m for r in records for m in r.methods if m.name == function.name]
        methods = methods or overloads.same_bodies(several if len(records) > 1 else ())
        if not methods:
            return None
        frame = self.of_record(record, where.kind.arguments, self.frame.depth)
        self._own(frame, record, where, node.at)
        return self.helper(node, methods, function.arguments, frame)

    def _own(self, frame: Frame, record: n.Record, where: Slot | Memory, at: n.Place) -> None:
        """Let `this` and the names of the fields stand for a struct and its parts."""
        frame.bind("this", where)
        for one in record.fields:
            if one.name not in frame.scopes[0]:
                frame.bind(one.name, self.part_of(where, one.name, at))

    def _closure(
        self, node: n.Call, closure: Closure, hint: str,
        template: tuple[n.CType | n.Expr, ...] = (),
    ) -> Val:  # fmt: skip
        function = n.Definition(
            "lambda", closure.function.parameters, closure.function.body, n.CType("auto"),
            closure.function.at, closure.function.template,
        )  # fmt: skip
        frame = Frame("lambda", outer=closure.frame, depth=self.frame.depth + 1)
        if (
            function in self.trail
            or frame.depth > MAX_DEPTH
            or not self.bound(function, node, template, frame)
        ):
            return self.opaque("lambda", node.arguments, node.at, hint)
        read = self.body_of(function, frame, node.at)
        return read or self.opaque("lambda", node.arguments, node.at, hint)
