"""Indices that are computed twice: for the loads of a loop, and again for the store."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION_POINTER, PRODUCT, PRODUCT_POINTER, vary
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_AGAIN = vary(
    PRODUCT_POINTER,
    (
        "    tl.store(out +",
        "    m = tl.program_id(0) * TM + tl.arange(0, TM)\n"
        "    n = tl.program_id(1) * TN + tl.arange(0, TN)\n    tl.store(out +",
    ),
)


class RecomputedIndices(Pattern):
    """The same lane positions are computed twice; one serves the loads of a loop over products, the
    other the store alone."""

    name = "index-rematerialisation-after-the-loop"
    axis = "occupancy"
    source = "Briggs, Cooper, Torczon, Rematerialization (1992)"
    matches = (Case(_AGAIN, "indices rematerialised before the store"),)
    near_misses = (
        NearMiss(PRODUCT_POINTER, why="the positions are kept over the loop"),
        NearMiss(ATTENTION_POINTER, why="the positions are kept over the loop"),
        NearMiss(PRODUCT, why="the positions are kept over the loop"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not any(p.loops for p in facts.contractions) or facts.of_threads:
            return
        positions = [n for n in facts.graph.of(OpKind.ADD) if self._position(facts, n)]
        loading = [n for n in positions if any(_places(facts, a, n) for a in facts.loads)]
        known = {facts.values.expr(n.result) for n in loading}
        again = [
            n
            for n in positions
            if n not in loading
            and facts.values.expr(n.result) in known
            and any(_places(facts, a, n) for a in facts.stores)
        ]
        if again:
            yield self.decide(facts, "indices rematerialised before the store", again)

    def _position(self, facts: Facts, node: Node) -> bool:
        expr = facts.values.expr(node.result)
        return not node.loops and expr.has(AtomKind.LANE) and expr.has(AtomKind.BLOCK)


def _places(facts: Facts, access: Access, node: Node) -> bool:
    return facts.graph.rests_on(access.base, node)
