"""What an operator of a file, handed to a collective, makes of two values: of each lane the
reduction that it is."""

from __future__ import annotations

from collections.abc import Sequence

from kb.ir import Op
from kb.ops import OpKind

MAX_LANES = 4
"""Lanes of a vector type of the language."""

_REDUCTIONS: dict[str, OpKind] = {
    OpKind.ADD: OpKind.REDUCE_SUM, OpKind.MAXIMUM: OpKind.REDUCE_MAX,
    OpKind.MINIMUM: OpKind.REDUCE_MIN,
}  # fmt: skip
_LOOKS = frozenset({OpKind.COPY, OpKind.CAST})


def combined(ops: Sequence[Op], result: str, sides: tuple[str, str]) -> tuple[OpKind, ...]:
    """The reductions of the lanes of what operations make of two values, one for a number; none
    where they do anything else."""
    made = {op.results[0].name: op for op in ops if len(op.results) == 1 and not op.regions}
    op = _below(made, result)
    parts = op.inputs if op is not None and op.kind == OpKind.VECTOR else (result,)
    found = [
        _lane(made, part, sides, index if len(parts) > 1 else None)
        for index, part in enumerate(parts)
    ]
    kinds = tuple(kind for kind in found if kind is not None)
    return kinds if len(kinds) == len(found) <= MAX_LANES else ()


def items(ops: Sequence[Op], value: str) -> tuple[str, ...]:
    """The lanes that a vector was just made of."""
    op = next((op for op in reversed(ops) if any(r.name == value for r in op.results)), None)
    return op.inputs if op is not None and op.kind == OpKind.VECTOR else ()


def literal(ops: Sequence[Op], value: str) -> object:
    """The number that an operation right before is; None for any other."""
    op = next((op for op in reversed(ops) if any(r.name == value for r in op.results)), None)
    return op.attribute("value") if op is not None and op.kind == OpKind.CONST else None


def _lane(
    made: dict[str, Op], value: str, sides: tuple[str, str], index: int | None
) -> OpKind | None:
    op = _below(made, value)
    if op is None or op.kind not in _REDUCTIONS or len(op.inputs) < 2:
        return None
    taken = {_side(made, one, index) for one in op.inputs[:2]}
    return _REDUCTIONS[op.kind] if taken == set(sides) else None


def _side(made: dict[str, Op], value: str, index: int | None) -> str:
    """The value of which an operand is the same lane."""
    op = _below(made, value)
    if index is None or op is None:
        return value if op is None else op.results[0].name
    if op.kind != OpKind.EXTRACT or len(op.inputs) != 2:
        return ""
    lane = _below(made, op.inputs[1])
    same = lane is not None and lane.kind == OpKind.CONST and lane.attribute("value") == index
    base = _below(made, op.inputs[0])
    return base.results[0].name if same and base is not None else ""


def _below(made: dict[str, Op], value: str) -> Op | None:
    op = made.get(value)
    while op is not None and op.kind in _LOOKS:
        op = made.get(op.inputs[0])
    return op
