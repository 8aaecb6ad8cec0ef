"""Writes a new function op by op while an old one is walked; hands out names that cannot clash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from kb.ir import Literal, Op, Region, Span, Value
from kb.ops import OpKind

_STATIC = frozenset(
    {OpKind.CONST, OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FLOOR_DIV, OpKind.MOD,
     OpKind.CEIL_DIV, OpKind.SUBSCRIPT, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT}
)  # fmt: skip
_DEPTH = 20
"""Nesting of a size expression that is copied."""


class Builder:
    """The regions being written, and the constants that they use."""

    def __init__(self) -> None:
        self._open: list[list[Op]] = []
        self._inner: list[bool] = []
        self._count = 0
        self.constants: dict[str, Literal] = {}
        self.static: dict[str, Op | None] = {}
        self.span = Span(0)

    @contextmanager
    def region(self, *, inner: bool = False) -> Iterator[list[Op]]:
        """Open a region; what is added goes there until the block ends.

        `inner` marks the body of a loop, or of an expression: what is made once stays outside.
        """
        ops: list[Op] = []
        self._open.append(ops)
        self._inner.append(inner)
        try:
            yield ops
        finally:
            self._open.pop()
            self._inner.pop()

    @contextmanager
    def before_loops(self) -> Iterator[list[Op]]:
        """Add in front of the outermost loop that is open, until the block ends."""
        depth = self._inner.index(True) if True in self._inner else len(self._open)
        hidden, self._open = self._open[depth:], self._open[:depth]
        try:
            yield self._open[-1]
        finally:
            self._open += hidden

    def sees(self, region: list[Op]) -> bool:
        """True when what was added to a region is in sight of what is added now."""
        return any(ops is region for ops in self._open)

    @property
    def innermost(self) -> list[Op]:
        """The region that is added to."""
        return self._open[-1]

    @property
    def outermost(self) -> list[Op]:
        """The body of the function."""
        return self._open[0]

    def hoisted(self, value: str, depth: int = 0) -> str:
        """A compile-time expression copied whole, so that it may stand before its parts."""
        op = self.static.get(value)
        if op is None or depth > _DEPTH:
            return value
        if op.kind == OpKind.CONST:
            return self.constant(op.attribute("value"))
        operands = [(role, self.hoisted(name, depth + 1)) for role, name in op.operands]
        return self.add(op.kind, operands, op.attributes)

    def fresh(self, hint: str = "") -> Value:
        """A new value name; numbers start high so that they never meet a reader's."""
        self._count += 1
        return Value(f"{hint}.{100_000 + self._count}")

    def append(self, op: Op) -> None:
        """Add a finished op; a size that is computed at compile time is written out again in place.

        A size held in a variable would no longer be a compile-time value.
        """
        if op.kind in (OpKind.TUPLE, OpKind.LIST, OpKind.ARANGE):
            operands = tuple((role, self.again(value)) for role, value in op.operands)
            op = replace(op, operands=operands)
        self._open[-1].append(op)
        if len(op.results) == 1 and (
            op.kind == OpKind.SHAPE
            or (op.kind in _STATIC and all(value in self.static for value in op.inputs))
        ):
            self.static[op.result] = op

    def again(self, value: str, depth: int = 0) -> str:
        """A compile-time expression copied, so that it stands where it is used."""
        op = self.static.get(value)
        if op is None or op.kind == OpKind.CONST or depth > _DEPTH:
            return value
        if op.kind == OpKind.SHAPE:
            return self.add(op.kind, op.operands)
        operands = [(role, self.again(name, depth + 1)) for role, name in op.operands]
        return self.add(op.kind, operands, op.attributes)

    def add(
        self,
        kind: str,
        operands: Sequence[tuple[str, str]],
        attributes: Sequence[tuple[str, Literal]] = (),
        hint: str = "",
        regions: tuple[Region, ...] = (),
    ) -> str:
        """Add an op with one result and return the result."""
        value = self.fresh(hint)
        op = Op(str(kind), tuple(operands), tuple(attributes), (value,), regions, self.span)
        self.append(op)
        return value.name

    def named(self, value: str, hint: str) -> str:
        """Give the step just added a spelling; an earlier one is copied under that spelling."""
        ops = self._open[-1]
        if ops and ops[-1].results and ops[-1].results[0].name == value:
            fresh = self.fresh(hint)
            if value in self.static:
                self.static[fresh.name] = self.static[value]
            ops[-1] = replace(ops[-1], results=(fresh,))
            return fresh.name
        return self.add(OpKind.COPY, [("x", value)], hint=hint)

    def constant(self, value: Literal) -> str:
        """A literal."""
        name = self.add(OpKind.CONST, (), [("value", value)])
        self.constants[name] = value
        return name

    def binary(self, kind: str, lhs: str, rhs: str, hint: str = "") -> str:
        """An operator; multiplication by one and addition of zero are left out."""
        left, right = self.constants.get(lhs), self.constants.get(rhs)
        if kind == OpKind.MUL and not hint:
            if right == 1:
                return lhs
            if left == 1:
                return rhs
        if kind == OpKind.ADD and not hint:
            if right == 0 and isinstance(right, int):
                return lhs
            if left == 0 and isinstance(left, int):
                return rhs
        return self.add(kind, [("lhs", lhs), ("rhs", rhs)], hint=hint)

    def tuple_of(self, items: Sequence[str]) -> str:
        """A tuple."""
        return self.add(OpKind.TUPLE, [("item", item) for item in items])

    def expand(self, value: str, position: int, rank: int, hint: str = "") -> str:
        """A vector as axis `position` of a tile of `rank` axes."""
        if rank == 1:
            return value
        pattern = ",".join(":" if axis == position else "None" for axis in range(rank))
        return self.add(OpKind.SUBSCRIPT, [("x", value)], [("pattern", pattern)], hint)
