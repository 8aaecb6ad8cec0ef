"""Which integers of a cuTile program are surely not negative."""

from __future__ import annotations

from dataclasses import dataclass, field

from generators.lower.extents import MAX_DEPTH, Extents
from kb.ir import Op
from kb.ops import OpKind

_NEVER = frozenset(
    {OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.NUM_TILES, OpKind.VIEW_NUM_TILES, OpKind.SHAPE,
     OpKind.ABS, OpKind.ARGMAX, OpKind.ARGMIN}
)  # fmt: skip
_ALL = frozenset(
    {OpKind.ADD, OpKind.MUL, OpKind.FLOOR_DIV, OpKind.CEIL_DIV, OpKind.MINIMUM, OpKind.BIT_OR,
     OpKind.BIT_XOR, OpKind.SHIFT_LEFT, OpKind.CAST, OpKind.RESHAPE, OpKind.BROADCAST_TO,
     OpKind.EXPAND_DIMS, OpKind.PERMUTE, OpKind.TRANSPOSE, OpKind.COPY, OpKind.EXTRACT, OpKind.CAT,
     OpKind.REDUCE_SUM, OpKind.REDUCE_MAX, OpKind.REDUCE_MIN, OpKind.CUMSUM, OpKind.POS}
)  # fmt: skip
"""Not negative where every number that goes in is not."""

_ANY = frozenset({OpKind.MAXIMUM, OpKind.BIT_AND})
_FIRST = frozenset({OpKind.SHIFT_RIGHT, OpKind.SUBSCRIPT})
_NUMBERS = frozenset({"x", "y", "lhs", "rhs", "value", "item", "tiles"})


@dataclass(slots=True)
class Signs:
    """Facts by value name; what is not proved counts as possibly negative.

    `assumed` are parameters that the caller, or an assertion of the kernel, vouches for.
    """

    extents: Extents
    assumed: frozenset[str] = frozenset()
    _known: dict[str, bool] = field(default_factory=dict)
    _depth: int = 0

    def natural(self, value: str) -> bool:
        """True when the value is proved to be zero or more."""
        if value not in self._known:
            if self._depth > MAX_DEPTH:
                return False
            # A value carried by a loop may depend on itself: until it is proved it is not.
            self._known[value] = False
            self._depth += 1
            self._known[value] = self._found(value)
            self._depth -= 1
        return self._known[value]

    def assume(self, value: str) -> None:
        """From here on a value counts as not negative."""
        self.assumed |= {value}
        self._known.clear()

    def _found(self, value: str) -> bool:
        op = self.extents.producers.get(value)
        if value in self.extents.sizes or value in self.assumed:
            return True
        if value in self.extents.counters:
            return self._counted(self.extents.counters[value])
        if value in self.extents.sources:
            other = self.extents.others.get(value)
            unpacked = op is not None and op.kind == OpKind.UNPACK
            carried = not unpacked and (op is None or op.kind in (OpKind.FOR, OpKind.WHILE))
            first = self.natural(self.extents.sources[value])
            return first and not carried and (other is None or self.natural(other))
        return op is not None and self._made(op)

    def _made(self, op: Op) -> bool:
        if op.kind in _NEVER:
            return True
        if op.kind == OpKind.UNPACK:
            return self.natural(op.inputs[0])
        if op.kind in (OpKind.CONST, OpKind.FULL):
            number = op.attribute("value") if op.kind == OpKind.CONST else None
            if op.kind == OpKind.FULL:
                return self.natural(str(op.operand("value")))
            return isinstance(number, int | float) and number >= 0
        if op.kind == OpKind.ARANGE:
            given = [op.operand(role) for role in ("start", "step")]
            return all(self.natural(value) for value in given if value is not None)
        if op.kind == OpKind.MOD:
            return self.natural(str(op.operand("rhs")))
        if op.kind == OpKind.SELECT:
            return all(self.natural(str(op.operand(role))) for role in ("x", "y"))
        numbers = [value for role, value in op.operands if role in _NUMBERS]
        if op.kind in _FIRST:
            return self.natural(op.inputs[0])
        if op.kind in _ANY:
            return any(map(self.natural, numbers))
        if op.kind in (OpKind.TUPLE, OpKind.LIST):
            return all(map(self.natural, op.inputs))
        return op.kind in _ALL and bool(numbers) and all(map(self.natural, numbers))

    def _counted(self, iterable: str) -> bool:
        """The variable of a loop that starts at zero or more and counts up."""
        made = self.extents.producers.get(iterable)
        if made is None or made.kind not in (OpKind.RANGE, OpKind.STATIC_RANGE):
            return False
        given = [made.operand(role) for role in ("low", "step")]
        return all(self.natural(value) for value in given if value is not None)
