"""Softmax with its maximum known before the exponentials are summed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import NORM_PERSISTENT, SOFTMAX, SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.exponentials import Exponential
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import persistent
from kb.evidence import Decision
from kb.ops import OpKind


class MultiPassSafeSoftmax(Pattern):
    """max, exp of the difference, sum, quotient: on one resident tile, or in three loops."""

    name = "multi-pass-safe-softmax"
    axis = "softmax_scheme"
    source = "Milakov and Gimelshein, Online normalizer calculation for softmax (2018), algorithm 2"
    matches = (
        Case(SOFTMAX, "single resident tile"),
        Case(SOFTMAX_CHUNKS, "safe 3-pass"),
        Case(SOFTMAX_POINTER, "single resident tile"),
        Case(SOFTMAX_THREADS, "single resident tile"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="the maximum runs along with the sum"),
        NearMiss(NORM_PERSISTENT, why="no exponential"),
        NearMiss(FLASH_POINTER, why="the maximum runs along with the sum"),
        NearMiss(FLASH_THREADS, why="the maximum runs along with the sum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or any(e.rescale for e in facts.exponentials):
            return
        for e in facts.exponentials:
            maxima = facts.graph.roots(e.statistic, OpKind.REDUCE_MAX)
            sums = [
                n
                for n in facts.graph.of(OpKind.REDUCE_SUM)
                if facts.graph.rests_on(n.result, e.node)
            ]
            if not maxima or not sums or e.score is None:
                continue
            work = [loop.node for loop in facts.loops if not persistent(loop, facts.values)]
            if any(n.loop in work for n in (*maxima, *sums)):
                yield self._loops(facts, e, maxima, sums)
            else:
                quotients = [
                    n
                    for n in facts.graph.of(OpKind.DIV, OpKind.MUL)
                    if self._quotient(facts, n, e, sums)
                ]
                if not quotients:
                    continue
                where: list[Where] = [*maxima, e.difference, e.node, *sums, *quotients]
                yield self.decide(facts, "single resident tile", where)
            return

    def _quotient(self, facts: Facts, node: Node, e: Exponential, sums: list[Node]) -> bool:
        over, under = node.op.inputs[:2]
        return facts.graph.rests_on(over, e.node) and any(
            facts.graph.rests_on(under, s) for s in sums
        )

    def _loops(
        self, facts: Facts, e: Exponential, maxima: list[Node], sums: list[Node]
    ) -> Decision:
        stores = [s.node for s in facts.stores]
        last = [n for n in stores if n.loop is not None and n.loop is not sums[0].loop]
        loops = [n.loop for n in (*maxima, *sums, *last) if n.loop is not None]
        value = "safe 3-pass" if len(set(loops)) >= 3 else "safe 2-pass"
        return self.decide(facts, value, [*maxima, e.node, *sums, *last])
