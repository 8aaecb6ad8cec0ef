"""Scores of an attention that no matrix product computes: a row times every key, summed over the
lanes."""

from __future__ import annotations

from kb.analysis.exponentials import Statistic
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.ops import REDUCTIONS, OpKind


def score_sums(facts: Facts) -> list[Node]:
    """Sums of products of two loaded tiles, in a loop, that elementwise steps turn into
    exponentials of what they lie below a maximum."""
    if facts.contractions or not facts.exponentials:
        return []
    kept = [e for e in facts.exponentials if e.origin is Statistic.REDUCED and not e.rescale]
    scores = [e.score for e in kept if e.score is not None]
    reached = {
        node
        for score in scores
        for node in facts.graph.upstream(score, lambda n: n.op.kind in REDUCTIONS)
        if node.op.kind == OpKind.REDUCE_SUM and node.loop is not None
    }
    return [n for n in facts.graph.of(OpKind.REDUCE_SUM) if n in reached and factors(facts, n)]


def factors(facts: Facts, total: Node) -> tuple[str, ...]:
    """The two sides of the product that a sum adds up, where both are made of loads."""
    made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
    if made is None or made.op.kind != OpKind.MUL:
        return ()
    sides = made.op.inputs[:2]
    return sides if all(facts.feeding(side) for side in sides) else ()
