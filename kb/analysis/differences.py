"""Differences, however they are written: a subtraction, or the addition of a negative."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.ops import OpKind

DIFFERENCES = (OpKind.SUB, OpKind.ADD, OpKind.FMA)
"""Operations that may give a difference."""


def difference(facts: Facts, node: Node) -> tuple[str, tuple[str, ...]] | None:
    """What is taken less, and the factors of what is taken away; None for any other sum."""
    if node.op.kind == OpKind.SUB:
        over, under = node.op.inputs[:2]
        made = facts.graph.producer(facts.graph.core(under))
        product = made is not None and made.op.kind == OpKind.MUL
        return over, made.op.inputs[:2] if made is not None and product else (under,)
    if node.op.kind == OpKind.FMA:
        factors = _negative(facts, node.op.inputs[:2])
        return (node.op.inputs[2], factors) if factors else None
    if node.op.kind == OpKind.ADD:
        for over, under in (node.op.inputs[:2], node.op.inputs[1::-1]):
            made = facts.graph.producer(facts.graph.core(under))
            if made is not None and made.op.kind in (OpKind.MUL, OpKind.NEG):
                parts = made.op.inputs[:2] if made.op.kind == OpKind.MUL else (under,)
                if factors := _negative(facts, parts):
                    return over, factors
    return None


def _negative(facts: Facts, factors: tuple[str, ...]) -> tuple[str, ...]:
    """The factors of a negative product without its sign; none where it has none."""
    found: list[str] = []
    negative = False
    for value in factors:
        made = facts.graph.producer(facts.graph.core(value))
        if made is not None and made.op.kind == OpKind.NEG:
            found.append(made.op.inputs[0])
            negative = not negative
        elif _less_one(facts, value):
            negative = not negative
        else:
            found.append(value)
    return tuple(found) if negative else ()


def _less_one(facts: Facts, value: str) -> bool:
    """The number minus one, in every lane."""
    core = facts.graph.core(value)
    made = facts.graph.producer(core)
    lanes = made.op.inputs if made is not None and made.op.kind == OpKind.VECTOR else (core,)
    return all(facts.values.literal(facts.graph.core(lane)) == -1 for lane in lanes)
