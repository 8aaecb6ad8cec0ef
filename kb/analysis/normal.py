"""Of the forms of a program that mean the same, the one that is looked at: a branch asks for what
is so, not for what is not, and numbers, what the host hands in and what is computed of these alone
stand on the right of a comparison, a sum or a product."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kb.ir import Kernel, Op, ParameterKind, Region, TypeKind
from kb.ops import COMPARISONS, MIRRORED, OpKind

_BRANCHES = frozenset({OpKind.IF, OpKind.IF_EXPRESSION})
_SIDES = ("x", "y")
_EITHER_WAY = COMPARISONS | {
    OpKind.ADD, OpKind.MUL, OpKind.BIT_AND, OpKind.BIT_OR, OpKind.MAXIMUM, OpKind.MINIMUM,
}  # fmt: skip
_OF_NUMBERS = COMPARISONS | {OpKind.MUL}
_COMPUTES = frozenset({
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FLOOR_DIV, OpKind.CEIL_DIV, OpKind.MOD,
    OpKind.MINIMUM, OpKind.MAXIMUM, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT, OpKind.CAST,
    OpKind.DTYPE, OpKind.ATTRIBUTE, OpKind.NUM_BLOCKS, OpKind.BLOCK_THREADS, OpKind.SIZE_OF,
})  # fmt: skip
_PLAIN = (ParameterKind.SCALAR, ParameterKind.CONSTEXPR)


@dataclass(frozen=True, slots=True)
class _Made:
    """What made the values so far, and the kinds of the parameters."""

    ops: dict[str, Op]
    parameters: dict[str, ParameterKind]
    alike: set[str] = field(default_factory=set)
    """Values that are one number for the whole grid: computed of what is handed in."""

    def add(self, op: Op) -> None:
        self.ops.update((result.name, op) for result in op.results)
        number = op.kind != OpKind.ATTRIBUTE or all(
            one.type is not None and one.type.kind == TypeKind.SCALAR for one in op.results
        )
        if op.kind in _COMPUTES and number and all(self._given(value) for value in op.inputs):
            self.alike.update(result.name for result in op.results)

    def _given(self, value: str) -> bool:
        made = self.ops.get(value)
        plain = self.parameters.get(value) in _PLAIN
        return value in self.alike or plain or (made is not None and made.kind == OpKind.CONST)

    def rank(self, value: str, kind: str) -> int:
        """How far to the right a value belongs: a number, a number that is handed in, one computed
        of these, the rest; what is multiplied or compared is no pointer."""
        made = self.ops.get(value)
        if made is not None:
            return 3 if made.kind == OpKind.CONST else int(value in self.alike)
        given = self.parameters.get(value)
        plain = given in _PLAIN or (kind in _OF_NUMBERS and given is not None)
        return 2 if plain else 0


def normal(kernel: Kernel) -> Kernel:
    """The same program with sides and operands in that order; spans are kept."""
    kinds = {one.name: one.kind for one in kernel.entry.parameters}
    body = _region(kernel.entry.body, _Made({}, kinds))
    same = body is kernel.entry.body
    return kernel if same else replace(kernel, entry=replace(kernel.entry, body=body))


def _region(region: Region, made: _Made) -> Region:
    ops = []
    for op in region.ops:
        regions = tuple([_region(inner, made) for inner in op.regions])
        if any(new is not old for new, old in zip(regions, op.regions, strict=True)):
            op = replace(op, regions=regions)
        op = _turned(op, made)
        ops.append(op)
        made.add(op)
    same = all(new is old for new, old in zip(ops, region.ops, strict=True))
    return region if same else replace(region, ops=tuple(ops))


def _turned(op: Op, made: _Made) -> Op:
    if op.kind in _EITHER_WAY:
        return _ordered(op, made)
    chooses = op.kind in _BRANCHES or op.kind == OpKind.SELECT
    asked = made.ops.get(op.inputs[0]) if chooses else None
    if asked is None or not _negates(asked, made):
        return op
    operands = ((op.operands[0][0], asked.inputs[0]), *op.operands[1:])
    if op.kind == OpKind.SELECT:
        given = dict(op.operands)
        if not all(side in given for side in _SIDES):
            return op
        other = dict(zip(_SIDES, (given[side] for side in reversed(_SIDES)), strict=True))
        operands = tuple([(role, other.get(role, value)) for role, value in operands])
        return replace(op, operands=operands)
    return replace(op, operands=operands, regions=op.regions[::-1]) if len(op.regions) == 2 else op


def _ordered(op: Op, made: _Made) -> Op:
    left, right = op.inputs[:2]
    if made.rank(left, op.kind) <= made.rank(right, op.kind):
        return op
    roles = [role for role, _ in op.operands[:2]]
    turned = tuple(zip(roles, (right, left), strict=True))
    return replace(op, kind=MIRRORED.get(op.kind, op.kind), operands=(*turned, *op.operands[2:]))


def _negates(asked: Op, made: _Made) -> bool:
    """Whether a condition asks that another one is not so."""
    if asked.kind == OpKind.NOT:
        return True
    below = made.ops.get(asked.inputs[0]) if asked.kind == OpKind.BIT_NOT else None
    return below is not None and below.kind in COMPARISONS
