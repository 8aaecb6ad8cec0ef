"""Expressions that are no calls: literals, names, operators, choices, casts, assignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.aggregates import NAMED_LIMITS
from extractors.cuda.core import is_integer, joined_kind, promoted, pure, widens
from extractors.cuda.file_constants import FileConstantReader
from extractors.cuda.folds import FOLDS, computed
from extractors.cuda.mistaken import cast_of
from extractors.cuda.values import (
    BOOL,
    INT,
    MISSING,
    NULL,
    UNKNOWN,
    Fixed,
    Kind,
    Memory,
    Pointing,
    Slot,
    Val,
    Where,
)
from kb.dialects.cuda import BITS, INDICES
from kb.errors import InputError
from kb.ir import Op, Region
from kb.ops import NAMED, OpKind

_BINARY = {
    "+": OpKind.ADD, "-": OpKind.SUB, "*": OpKind.MUL, "/": OpKind.DIV, "%": OpKind.MOD,
    "&": OpKind.BIT_AND, "|": OpKind.BIT_OR, "^": OpKind.BIT_XOR, "<<": OpKind.SHIFT_LEFT,
    ">>": OpKind.SHIFT_RIGHT, "==": OpKind.EQ, "!=": OpKind.NE, "<": OpKind.LT, "<=": OpKind.LE,
    ">": OpKind.GT, ">=": OpKind.GE, "&&": OpKind.AND, "||": OpKind.OR,
}  # fmt: skip
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_UNARY = {"-": OpKind.NEG, "+": OpKind.POS, "~": OpKind.BIT_NOT, "!": OpKind.NOT}
_AXES = {"x": 0, "y": 1, "z": 2}
MAX_DEPTH = 120
"""Expressions inside each other, through helpers and constants: about four calls of Python each."""

_COUNTING = frozenset({
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FLOOR_DIV, OpKind.MINIMUM, OpKind.MAXIMUM,
})  # fmt: skip


class OperatorReader(FileConstantReader):
    """Expressions that are no calls."""

    def read(self, node: n.Expr, hint: str = "") -> Val:
        """The value of an expression; `hint` names it when the expression makes a new one."""
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                raise InputError(
                    "expressions nest too deeply.", where=f"{node.at.path}:{node.at.line}",
                    hint="Split the expression.",
                )  # fmt: skip
            return self._read(node, hint)
        finally:
            self.depth -= 1

    def _read(self, node: n.Expr, hint: str) -> Val:
        match node:
            case n.Constant(value=value, dtype=dtype):
                return self.constant(value, node.at, Kind(dtype or "?"), hint)
            case n.Name():
                return self._name(node, hint)
            case n.Binary():
                return self._binary(node, hint)
            case n.Unary():
                return self._unary(node, hint)
            case n.Assign():
                return self._assign(node)
            case n.Choice():
                return self._choice(node, hint)
            case n.Field():
                return self._field(node, hint)
            case n.Index():
                return self._index(node, hint)
            case n.Cast():
                return self.converted(node, hint)
            case n.SizeOf():
                return self.size(node, hint)
            case n.Braces():
                return self.braced(node, hint)
            case n.Call():
                return self.call(node, hint)
            case n.Assembly():
                return self.assembly(node)
            case n.Fold():
                return self.fold(node, hint)
            case n.Unread(what=what, inner=inner):
                return self.opaque(what, inner, node.at, hint)
        return self.opaque(type(node).__name__, (), node.at, hint)

    def assembly(self, node: n.Assembly) -> Val:
        """Inline assembly."""
        raise NotImplementedError

    # -- names

    def _name(self, node: n.Name, hint: str) -> Val:
        name = node.text
        found = self.frame.find(name)
        if isinstance(found, Val):
            return self.seen(found)
        if isinstance(found, Slot | Memory):
            return self.load(found, node.at, hint)
        if isinstance(found, Fixed):
            with self.inside(self.entered(found)):
                return self.read(found.value, hint)
        if isinstance(found, Pointing):
            return self.address(found.where, f": {name}", (), node.at, hint)
        same = self.same_type(node, hint)
        if same is not None:
            return same
        head, _, last = name.rpartition("::")
        member = self.static_member(head, last, node.at, hint, node.scope) if head else None
        if member is not None:
            return member
        if last == "nullopt":
            return self.constant(None, node.at, MISSING, hint)
        if last in NAMED_LIMITS:
            value = NAMED_LIMITS[last]
            kind = Kind("f32") if isinstance(value, float) else INT
            return self.constant(value, node.at, kind, hint)
        constant = self.file_constant(node, hint) if found is None else None
        known = constant or self.built.get(name)
        return known or self.opaque(f"{NAMED}{name}", (), node.at, hint)

    def _field(self, node: n.Field, hint: str) -> Val:
        operand = node.operand
        if isinstance(operand, n.Name) and operand.text in INDICES and node.name in _AXES:
            if self.frame.find(operand.text) is None:
                return self.axis(INDICES[operand.text], _AXES[node.name], node.at)
        where = self.place(node)
        if where is not None:
            return self.load(where, node.at, hint)
        base = self.read(operand)
        if base.kind.shape and node.name in ("x", "y", "z", "w"):
            index = self.constant("xyzw".index(node.name), node.at)
            operands = [("x", base.name), ("index", index.name)]
            return self.one(OpKind.EXTRACT, operands, node.at, base.kind.element, hint)
        kind = self.field(base.kind, node.name)
        attributes = [("name", node.name)]
        return self.one(OpKind.ATTRIBUTE, [("x", base.name)], node.at, kind, hint, attributes)

    def _index(self, node: n.Index, hint: str) -> Val:
        where = self.place(node)
        if where is not None:
            return self.load(where, node.at, hint)
        base, index = self.read(node.operand), self.read(node.index)
        operands = [("x", base.name), ("index", index.name)]
        if base.kind.record or base.kind == UNKNOWN:
            return self.one(OpKind.EXTRACT, operands, node.at, UNKNOWN, hint)
        return self.one(OpKind.EXTRACT, operands, node.at, base.kind.element, hint)

    # -- operators

    def _binary(self, node: n.Binary, hint: str) -> Val:
        if node.operator == ",":
            self.read(node.left)
            return self.read(node.right, hint)
        if node.operator in ("&&", "||"):
            return self._logic(node, hint)
        if node.operator in ("*", "-") and isinstance(node.left, n.Name):
            if self.is_type(node.left):
                return self.read(cast_of(node, node.left), hint)
        left = self.read(node.left)
        return self.arithmetic(node.operator, left, self.read(node.right), node.at, hint)

    def arithmetic(self, operator: str, left: Val, right: Val, at: n.Place, hint: str) -> Val:
        """An operator on two values, converted to one type as C++ does."""
        kind = _BINARY.get(operator)
        if kind is None:
            operands = [("read", left.name), ("read", right.name)]
            return self.one(OpKind.OPAQUE, operands, at, UNKNOWN, hint, [("what", operator)])
        if operator in ("+", "-"):
            if left.kind.to is not None and right.kind.to is None:
                return self.add(left, right, at, kind)
            if right.kind.to is not None and left.kind.to is None:
                return self.add(right, left, at, kind)
        known = computed(operator, left, right)
        if left.kind == NULL == right.kind and operator in ("==", "!="):
            known = operator == "=="
        if known is not None:
            of = BOOL if operator in _COMPARISONS else Kind(promoted(left.kind, right.kind))
            return self.constant(known, at, of, hint)
        asked = self._flag(operator, left, right, at) or self._flag(operator, right, left, at, 1)
        if asked is not None:
            return asked
        left, right, of = self._common(operator, left, right, at)
        self.whole |= {left.kind.dtype} if kind is OpKind.MOD else set()
        self.counted |= {left.name, right.name} if kind is OpKind.MOD else set()
        if kind is OpKind.DIV and self._whole_number(left, right):
            kind = OpKind.FLOOR_DIV
        operands = [("lhs", left.name), ("rhs", right.name)]
        of = BOOL if operator in _COMPARISONS else of
        made = self.one(kind, operands, at, of, hint)
        self.count_on(kind, made, (left, right))
        return replace(made, static=left.static and right.static)

    def _flag(
        self, operator: str, flag: Val, number: Val, at: n.Place, turned: int = 0
    ) -> Val | None:
        """The condition that a choice between one and zero is asked for, or that it does not hold;
        None for other values. `turned` where the number stands first."""
        condition = self.flags.get(flag.name)
        value = number.const
        if condition is None or not isinstance(value, int) or operator not in _COMPARISONS:
            return None
        pairs = [(one, value)[:: -1 if turned else 1] for one in (1, 0)]
        holds, fails = (FOLDS[operator](*pair) for pair in pairs)
        if bool(holds) == bool(fails):
            return None
        if holds:
            return condition
        made = self.one(OpKind.NOT, [("x", condition.name)], at, BOOL)
        return replace(made, static=condition.static)

    def _whole_number(self, left: Val, right: Val) -> bool:
        """Whether a quotient is one of whole numbers: a remainder of the type was taken, too, or it
        is of what counts in steps that are compiled in."""
        kind = left.kind
        same = right.kind.dtype == kind.dtype or (right.static and right.kind == UNKNOWN)
        known = is_integer(kind) or kind.dtype in self.whole - {"?"} or left.name in self.counted
        return known and (is_integer(right.kind) or same or right.name in self.counted)

    def count_on(self, kind: OpKind, made: Val, values: Sequence[Val]) -> None:
        """Remember what is made of two numbers that count, by what is compiled in."""
        if made.kind == UNKNOWN and kind in _COUNTING and len(values) == 2:
            if self._counts(*values):
                self.counted.add(made.name)

    def _counts(self, left: Val, right: Val) -> bool:
        """Whether whole numbers, one at least, are added or multiplied by what is compiled in."""
        whole = [is_integer(one.kind) or one.name in self.counted for one in (left, right)]
        given = [one.static and one.kind == UNKNOWN for one in (left, right)]
        return any(whole) and all(a or b for a, b in zip(whole, given, strict=True))

    def _common(self, operator: str, left: Val, right: Val, at: n.Place) -> tuple[Val, Val, Kind]:
        """Both operands in the type of the result."""
        shape = left.kind.shape or right.kind.shape
        if left.kind.to or right.kind.to or left.kind.record or right.kind.record:
            return left, right, left.kind if left.kind.to else UNKNOWN
        if operator in ("<<", ">>"):
            return left, right, left.kind
        kind = Kind(promoted(left.kind, right.kind), shape)
        if is_integer(left.kind) and is_integer(right.kind):
            wide = BITS.get(kind.dtype, 32)
            left, right = (
                self.cast(v, Kind(kind.dtype), at) if v.const is None and v.kind.dtype != "i1"
                and BITS[v.kind.dtype] < wide else v for v in (left, right)
            )  # fmt: skip
        elif kind.dtype in ("f32", "f64"):
            left, right = (
                self.cast(v, Kind(kind.dtype), at)
                if is_integer(v.kind) or widens(v, other, kind.dtype) else v
                for v, other in ((left, right), (right, left))
            )  # fmt: skip
        return left, right, kind

    def _logic(self, node: n.Binary, hint: str) -> Val:
        """`&&` and `||`: the right side is read under a branch when it does more than compute."""
        left = self.read(node.left)
        kind = _BINARY[node.operator]
        either = node.operator == "||"
        if isinstance(left.const, bool) and left.const is either:
            return left
        if self.assigned(node.right):
            right = self.read(node.right)
        else:
            before = dict(self.names)
            with self.writer.region() as opened:
                right = self.read(node.right)
            self.names = before
            if not pure([op.kind for op in opened.ops]):
                return self._guarded(left, (opened.ops, right), either, node, hint)
            self.writer.current.ops.extend(opened.ops)
        if isinstance(right.const, bool):
            return right if right.const is either else left
        operands = [("lhs", left.name), ("rhs", right.name)]
        made = self.one(kind, operands, node.at, BOOL, hint)
        return replace(made, static=left.static and right.static)

    def _guarded(
        self,
        left: Val,
        right: tuple[list[Op], Val],
        either: bool,
        node: n.Binary,
        hint: str,
    ) -> Val:
        regions: list[Region] = []
        for taken in (not either, either):
            with self.writer.region() as opened:
                if taken:
                    opened.ops.extend(right[0])
                    value = right[1]
                else:
                    value = self.constant(either, node.at, BOOL)
                self.writer.emit(OpKind.YIELD, [("value", value.name)], node.at)
            regions.append(opened.region)
        name = self.writer.emit(
            OpKind.IF_EXPRESSION, [("condition", left.name)], node.at, ((hint, BOOL),), (),
            tuple(regions),
        )  # fmt: skip
        return Val(name[0], BOOL)

    def _unary(self, node: n.Unary, hint: str) -> Val:
        if node.operator == "*":
            where = self.place(node)
            if where is not None:
                return self.load(where, node.at, hint)
            return self.opaque("dereference", (node.operand,), node.at, hint)
        if node.operator == "&":
            return self._address(node, hint)
        value = self.read(node.operand)
        kind = _UNARY.get(node.operator)
        if kind is None:
            return self.opaque(node.operator, (node.operand,), node.at, hint)
        of = BOOL if kind is OpKind.NOT else value.kind
        if kind is OpKind.NOT and isinstance(value.const, bool):
            return self.constant(not value.const, node.at, BOOL, hint)
        made = self.one(kind, [("x", value.name)], node.at, of, hint)
        return replace(made, static=value.static)

    def _address(self, node: n.Unary, hint: str) -> Val:
        where = self.place(node.operand)
        if isinstance(where, Memory):
            kind = Kind(to=where.kind, space=where.address.kind.space)
            return replace(where.address, kind=kind)
        return self.address(where, "", (node.operand,), node.at, hint)

    # -- assignments

    def _assign(self, node: n.Assign) -> Val:
        where = self.place(node.target)
        hint = node.target.text if isinstance(node.target, n.Name) else ""
        if where is None:
            return self.opaque("assignment", (node.target, node.value), node.at)
        if not node.operator:
            if isinstance(node.value, n.Braces) and node.value.type is None:
                value = self.braces(node.value, where.kind, node.at, hint)
            else:
                value = self.read(node.value, hint)
            self.store(where, value, node.at)
            return self._held(where, value)
        before = self.load(where, node.at)
        value = self.read(node.value)
        after = self.arithmetic(node.operator, before, value, node.at, hint)
        self.store(where, after, node.at)
        if node.postfix:
            return before
        return self._held(where, after)

    def _held(self, where: Where, value: Val) -> Val:
        """The value of an assignment: what the variable holds now."""
        if isinstance(where, Slot) and not where.path:
            return self.names.get(where.key, value)
        return value

    def _choice(self, node: n.Choice, hint: str) -> Val:
        condition = self.read(node.condition)
        if isinstance(condition.const, bool):
            return self.read(node.then if condition.const else node.other, hint)
        if self.assigned((node.then, node.other)):
            return self.choice_with_effects(node, condition)
        sides = []
        before = self.names
        for side in (node.then, node.other):
            self.names = dict(before)
            with self.writer.region() as opened:
                value = self.read(side)
            sides.append((opened, value))
        self.names = before
        kind = joined_kind(sides[0][1], sides[1][1])
        if all(pure([op.kind for op in opened.ops]) for opened, _ in sides):
            for opened, _ in sides:
                self.writer.current.ops.extend(opened.ops)
            then, other = (self.convert(value, kind, node.at) for _, value in sides)
            made = self.selected(condition, (then, other), kind, node.at, hint)
            if condition.kind == BOOL and (then.const, other.const) == (1, 0) and is_integer(kind):
                self.flags[made.name] = condition
            return made
        for opened, value in sides:
            with self.writer.reopen(opened):
                value = self.convert(value, kind, node.at)
                self.writer.emit(OpKind.YIELD, [("value", value.name)], node.at)
        regions = tuple(opened.region for opened, _ in sides)
        name = self.writer.emit(
            OpKind.IF_EXPRESSION, [("condition", condition.name)], node.at, ((hint, kind),), (),
            regions,
        )  # fmt: skip
        return Val(name[0], kind)
