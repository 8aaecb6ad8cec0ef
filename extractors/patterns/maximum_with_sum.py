"""A maximum that is reduced together with the sum that is scaled to it."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import PAIRS_THREADS, SOFTMAX_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import OpKind


class MaximumWithSum(Pattern):
    """One reduction takes a running maximum and its rescaled sum in, side by side."""

    name = "maximum-reduced-with-its-sum"
    axis = "reduction_payload"
    source = "Milakov and Gimelshein, Online normalizer calculation for softmax (2018), section 3.1"
    matches = (Case(PAIRS_THREADS, "maximum with its sum"),)
    near_misses = (
        NearMiss(
            PAIRS_THREADS.replace("cg::reduce(warp, own, join)", "own"),
            why="each lane keeps its own pair",
        ),
        NearMiss(SOFTMAX_THREADS, why="maximum and sum are reduced one after the other"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for node in facts.graph.of(OpKind.REDUCE):
            pair = _pair(facts, node)
            if pair:
                yield self.decide(facts, "maximum with its sum", [node, *pair])


def _pair(facts: Facts, reduction: Node) -> list[Node]:
    """What makes the running maximum and the rescaled sum that a reduction takes in together."""
    made = facts.graph.producer(facts.graph.through(reduction.op.inputs[0], COPIES))
    if made is None or made.op.kind != OpKind.VECTOR:
        return []
    carried = {c.result: c for loop in facts.loops for c in loop.carried}
    states = [carried[v] for v in map(facts.graph.core, made.op.inputs) if v in carried]
    if {c.role for c in states} != {Role.RUNNING_MAXIMUM, Role.RUNNING_SUM}:
        return []
    return [n for c in states if (n := facts.graph.producer(c.next)) is not None]
