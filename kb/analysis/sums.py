"""Where lanes of a tile are put together: reductions and matrix products, with what leaves each of
them as it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from kb.analysis.axes import reduced_axes
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, LOOPS, TURNS, VIEWS, Node
from kb.analysis.padding import Lanes, Outside, PaddedLanes
from kb.ops import OpKind

LARGE = 1e3
"""A number beyond this stands for infinity where programs write a large one instead."""

NEUTRAL: dict[str, float] = {
    OpKind.REDUCE_SUM: 0.0, OpKind.REDUCE_PROD: 1.0, OpKind.REDUCE_MAX: -math.inf,
    OpKind.REDUCE_MIN: math.inf, OpKind.ARGMAX: -math.inf, OpKind.ARGMIN: math.inf,
    OpKind.REDUCE_OR: 0.0, OpKind.REDUCE_XOR: 0.0,
}  # fmt: skip
_PLAIN = VIEWS | CASTS | COPIES | TURNS
_NEVER_NEGATIVE = frozenset(
    {OpKind.ABS, OpKind.EXP, OpKind.EXP2, OpKind.SQRT, OpKind.SIGMOID, OpKind.RSQRT}
)


@dataclass(frozen=True, slots=True)
class Folded:
    """An operand whose lanes along one axis are put together by a reduction."""

    node: Node
    value: str
    outside: Outside


def reductions_with_outside(facts: Facts, lanes: PaddedLanes) -> Iterator[Folded]:
    """Every reduction with what the lanes outside along its axis hold."""
    for node in facts.reductions:
        value = node.op.inputs[0]
        for axis in reduced_axes(facts, node):
            yield Folded(node, value, lanes.outside(value, axis))


def products_with_outside(
    facts: Facts, lanes: PaddedLanes
) -> Iterator[tuple[Node, Outside, Outside]]:
    """Every matrix product with what lanes outside of its inner axis hold, left and right."""
    for node in facts.contractions:
        left, right = node.op.operand("lhs"), node.op.operand("rhs")
        yield node, lanes.outside(left, -1), lanes.outside(right, -2)


def is_neutral(facts: Facts, folded: Folded) -> bool:
    """True when lanes outside do not change the result: they hold the neutral number, or zero
    beside values that are never negative under a maximum."""
    neutral = NEUTRAL.get(folded.node.op.kind)
    number = folded.outside.number
    if neutral is None or folded.outside.lanes is not Lanes.NUMBER:
        return neutral is None
    if math.isinf(neutral):
        if number * math.copysign(1.0, neutral) >= LARGE:
            return True
        largest = folded.node.op.kind in (OpKind.REDUCE_MAX, OpKind.ARGMAX)
        return largest and number <= 0 and never_negative(facts, folded.value)
    return number == neutral


def never_negative(facts: Facts, value: str | None, limit: int = 24) -> bool:
    """True when every element is zero or more, by how it is computed."""
    value = facts.graph.through(value, _PLAIN)
    node = facts.graph.producer(value)
    if value in facts.graph.arguments:
        return True  # the loop is judged by its start and its step
    if node is not None and node.op.kind in LOOPS and limit and value is not None:
        return all(never_negative(facts, v, limit - 1) for v in facts.graph.feeds(value))
    if node is not None and is_index(facts, node):
        return True
    if node is None or limit == 0:
        literal = facts.values.literal(value)
        return isinstance(literal, int | float) and literal >= 0
    kind, inputs = node.op.kind, node.op.inputs
    if kind in _NEVER_NEGATIVE or facts.types.dtype(node.result) in ("i1", "u8", "u16", "u32"):
        return True
    if kind == OpKind.CONST:
        literal = node.op.attribute("value")
        return isinstance(literal, int | float) and literal >= 0
    if kind == OpKind.MUL and inputs[0] == inputs[1]:
        return True
    if kind == OpKind.MAXIMUM:
        if any(facts.graph.kind_of(a) == OpKind.NEG and b in facts.graph.feeds(a)
               for a, b in (inputs[:2], inputs[1::-1])):  # fmt: skip
            return True
        return any(never_negative(facts, v, limit - 1) for v in inputs[:2])
    if kind in (OpKind.ADD, OpKind.MUL, OpKind.DIV, OpKind.MINIMUM):
        return all(never_negative(facts, v, limit - 1) for v in inputs[:2])
    if kind == OpKind.SELECT:
        sides = (node.op.operand("x"), node.op.operand("y"))
        return all(never_negative(facts, v, limit - 1) for v in sides)
    if kind == OpKind.FULL:
        return never_negative(facts, node.op.operand("value"), limit - 1)
    return kind in (OpKind.ZEROS, OpKind.ONES)


def is_index(facts: Facts, node: Node) -> bool:
    """True when a loaded number is part of the offset of another access: an index, or a length."""
    return facts.access(node) is not None and node.result in facts.offset_loads
