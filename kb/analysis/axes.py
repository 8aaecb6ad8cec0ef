"""Axes of a value below the operations that only look at it differently; axes count from the last,
-1 first."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import TURNS, Node, is_view
from kb.ir import TypeKind
from kb.ops import OpKind


def extent_at(facts: Facts, value: str | None, axis: int) -> str | None:
    """Extent of a value along an axis: empty when it has no such axis, None when that is not
    known."""
    known = facts.types.of(value)
    if known.kind in (TypeKind.UNKNOWN, TypeKind.ARRAY):
        return None
    shape = known.shape
    return shape[axis] if len(shape) >= -axis else ""


def reduced_axes(facts: Facts, node: Node) -> tuple[int, ...]:
    """The axes that a reduction folds; all of them when it names none, none when not known."""
    rank = len(facts.types.shape(node.op.inputs[0]))
    given = node.op.operand("axis")
    if given is None:
        return tuple(range(-rank, 0))
    axis = facts.values.literal(given)
    if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
        return (-1,) if rank == 1 else ()
    return (axis % rank - rank,)


def axis_below(facts: Facts, node: Node, axis: int) -> int | None:
    """The axis of the first operand that an axis of the result is; None when it is none or not
    known."""
    value = node.op.inputs[0]
    rank = len(facts.types.shape(value))
    if node.op.kind in TURNS:
        return _turned(facts, node, axis, rank)
    if node.op.kind == OpKind.EXPAND_DIMS:
        place = facts.values.literal(node.op.operand("axis"))
        if not isinstance(place, int):
            return None
        new = place % (rank + 1) - (rank + 1)
        return None if axis == new else (axis if axis > new else axis + 1)
    if node.op.kind == OpKind.SUBSCRIPT:
        return _subscripted(node, axis)
    if node.op.kind == OpKind.RESHAPE:
        return _reshaped(facts.types.shape(value), facts.types.shape(node.result), axis)
    return axis


def _turned(facts: Facts, node: Node, axis: int, rank: int) -> int | None:
    axes = [v for role, v in node.op.operands if role in ("axes", "axis0", "axis1")]
    order = [facts.values.literal(i) for a in axes for i in facts.values.items(a)]
    if node.op.kind == OpKind.TRANSPOSE and len(order) != rank:
        return {-1: -2, -2: -1}.get(axis, axis)
    if len(order) != rank or rank < -axis:
        return None
    place = order[axis]
    return place % rank - rank if isinstance(place, int) else None


def _subscripted(node: Node, axis: int) -> int | None:
    if not is_view(node.op):
        return None
    parts = str(node.op.attribute("pattern")).split(",")
    if len(parts) < -axis:
        return axis
    if parts[axis] == "None":
        return None
    after = parts[axis + 1 :] if axis != -1 else []
    return -1 - sum(part != "None" for part in after)


def _reshaped(below: tuple[str, ...], above: tuple[str, ...], axis: int) -> int | None:
    """A reshape that only drops or adds axes of extent one keeps the others in order."""
    real = [i - len(below) for i, extent in enumerate(below) if extent != "1"]
    kept = [i - len(above) for i, extent in enumerate(above) if extent != "1"]
    if len(real) != len(kept) or axis not in kept:
        return None
    if [below[i] for i in real] != [above[i] for i in kept]:
        return None
    return real[kept.index(axis)]
