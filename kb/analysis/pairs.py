"""Choices between two values by comparing them, and sums that such a choice merges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kb.analysis.graph import Graph, Node
from kb.ir import Function, Op, Region, Value, walk
from kb.ops import OpKind

_LARGER = frozenset({OpKind.GT, OpKind.GE})
_SMALLER = frozenset({OpKind.LT, OpKind.LE})
_EXPONENTIALS = frozenset({OpKind.EXP, OpKind.EXP2})


@dataclass(frozen=True, slots=True)
class Merge:
    """Two sums with the maxima that they are scaled to, added up at the larger of these:
    `sums[0] * exp(tops[0] - top) + sums[1] * exp(tops[1] - top)`."""

    exponential: OpKind
    tops: tuple[str, str]
    top: str
    sums: tuple[str, str]


def between(graph: Graph, node: Node) -> Iterator[tuple[str, str]]:
    """The pairs of values that a choice, or a branch with two sides, is between."""
    if not node.op.regions and len(node.op.inputs) == 3:
        yield node.op.inputs[1], node.op.inputs[2]
    for at, _ in enumerate(node.op.results if len(node.op.regions) == 2 else ()):
        handed = [graph.handed(node, region)[at : at + 1] for region in (0, 1)]
        if all(handed):
            yield handed[0][0], handed[1][0]


def plainly(function: Function) -> Function:
    """The function with choices by comparing written as maxima and minima, and merged sums with a
    factor for each side."""
    if not any(op.kind == OpKind.SELECT for op in walk(function.body)):
        return function
    graph = Graph(function)
    return replace(function, body=_region(graph, function.body))


def _region(graph: Graph, region: Region) -> Region:
    ops: list[Op] = []
    for op in region.ops:
        kind, merge = extreme(graph, op), merge_of_pairs(graph, op)
        if kind is not None:
            sides = (("lhs", op.operand("x") or ""), ("rhs", op.operand("y") or ""))
            ops.append(replace(op, kind=kind, operands=sides))
        elif merge is not None:
            ops += _written(graph, op, merge)
        else:
            inner = tuple(_region(graph, one) for one in op.regions)
            ops.append(replace(op, regions=inner) if op.regions else op)
    return replace(region, ops=tuple(ops))


def _written(graph: Graph, op: Op, merge: Merge) -> list[Op]:
    """The operations of a merge, each side by itself."""
    made: list[Op] = []
    ends = []
    for side, (top, total) in enumerate(zip(merge.tops, merge.sums, strict=True)):
        names = [f"{op.result}.{step}.{side}" for step in ("apart", "factor", "scaled")]
        parts = (
            (OpKind.SUB, (("lhs", top), ("rhs", merge.top))),
            (merge.exponential, (("x", names[0]),)),
            (OpKind.MUL, (("lhs", total), ("rhs", names[1]))),
        )
        one = graph.producer(total)
        alone = one is not None and one.op.attribute("value") == 1
        for name, (kind, operands) in zip(names, parts[: 2 if alone else 3], strict=False):
            row = Value(name, op.results[0].type)
            made.append(replace(op, kind=kind, operands=operands, results=(row,)))
        ends.append(names[1] if alone else names[2])
    operands = (("lhs", ends[0]), ("rhs", ends[1]))
    return [*made, replace(op, kind=OpKind.ADD, operands=operands)]


def extreme(graph: Graph, op: Op) -> OpKind | None:
    """Maximum or minimum where the larger or the smaller of two values is chosen; NaNs aside."""
    made = graph.producer(op.operand("condition")) if op.kind == OpKind.SELECT else None
    if made is None or made.op.kind not in _LARGER | _SMALLER:
        return None
    left, right = made.op.inputs[:2]
    chosen = (op.operand("x"), op.operand("y"))
    if left == right or chosen not in ((left, right), (right, left)):
        return None
    first = chosen == (left, right)
    return OpKind.MAXIMUM if first == (made.op.kind in _LARGER) else OpKind.MINIMUM


def merge_of_pairs(graph: Graph, op: Op) -> Merge | None:
    """The sum of the side with the larger maximum, and of the other side scaled down to it."""
    if op.kind != OpKind.ADD:
        return None
    for value, scaled in (op.inputs[:2], op.inputs[1::-1]):
        kept, product = graph.producer(value), graph.producer(scaled)
        if kept is None or product is None or product.op.kind != OpKind.MUL:
            continue
        for other, factor in (product.op.inputs[:2], product.op.inputs[1::-1]):
            found = _merged(graph, kept.op, other, factor)
            if found is not None:
                return found
    return None


def _asked(graph: Graph, condition: str | None) -> tuple[str, ...] | None:
    """What a condition compares, and how; the same wherever it is written."""
    made = graph.producer(condition)
    return (made.op.kind, *made.op.inputs) if made is not None else None


def _merged(graph: Graph, kept: Op, other: str, factor: str) -> Merge | None:
    rest, power = graph.producer(other), graph.producer(factor)
    if rest is None or power is None or power.op.kind not in _EXPONENTIALS:
        return None
    step = graph.producer(power.op.inputs[0])
    if step is None or step.op.kind != OpKind.SUB:
        return None
    low, high = (graph.producer(v) for v in step.op.inputs[:2])
    if low is None or high is None:
        return None
    if (extreme(graph, low.op), extreme(graph, high.op)) != (OpKind.MINIMUM, OpKind.MAXIMUM):
        return None
    choices = (kept, rest.op, low.op, high.op)
    if any(c.kind != OpKind.SELECT for c in choices):
        return None
    asked = {_asked(graph, c.operand("condition")) for c in choices}
    if len(asked) != 1 or None in asked:
        return None
    sums = (kept.operand("x") or "", kept.operand("y") or "")
    tops = (high.op.operand("x") or "", high.op.operand("y") or "")
    swapped = (rest.op.operand("y"), rest.op.operand("x")) == sums
    return Merge(OpKind(power.op.kind), tops, high.result, sums) if swapped else None
