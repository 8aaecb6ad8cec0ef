"""Hyperbolic tangents, by the function or written with a logistic function."""

from __future__ import annotations

from kb.analysis.exponentials import Statistic
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Graph, Node
from kb.ops import OpKind

_LOOKS = VIEWS | CASTS
_OF_ROWS = (Statistic.REDUCED, Statistic.LOADED)
"""What a softmax takes from its scores: a maximum, or in the backward pass what was stored."""


def tangents(facts: Facts) -> list[tuple[Node, str]]:
    """What gives tanh(x), each with x: the function, or 2 * sigmoid(2 * x) - 1."""
    found = [(node, node.op.inputs[0]) for node in facts.graph.of(OpKind.TANH)]
    for node in facts.graph.of(OpKind.SUB):
        over, one = node.op.inputs[:2]
        curve = _twice(facts, over) if facts.values.literal(one) == 1 else None
        made = facts.graph.producer(facts.graph.through(curve, _LOOKS))
        if made is not None and made.op.kind == OpKind.SIGMOID:
            argument = _twice(facts, made.op.inputs[0])
            found += [(node, argument)] if argument is not None else []
    return found


def scored(facts: Facts, graph: Graph, node: Node) -> bool:
    """Whether a softmax behind a node of the program, or of its threads, is taken of what the node
    gives: that is a score."""
    below = (e for e in facts.exponentials if e.origin in _OF_ROWS)
    return any(
        e.node.index > node.index and graph.rests_on(e.node.op.inputs[0], node) for e in below
    )


def _twice(facts: Facts, value: str) -> str | None:
    """What a value is twice of."""
    made = facts.graph.producer(facts.graph.through(value, _LOOKS))
    if made is None or made.op.kind != OpKind.MUL:
        return None
    lhs, rhs = made.op.inputs[:2]
    if facts.values.literal(lhs) == 2:
        return rhs
    return lhs if facts.values.literal(rhs) == 2 else None
