"""Every block takes a contiguous chunk of the work items."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, vary
from extractors.patterns.cases_rows import NORM_BACKWARD
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role, blocked
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

_BLOCKED = vary(
    NORM_BACKWARD,
    ("TM: Int, TN: Int):", "TM: Int, TN: Int, PER: Int):"),
    (
        "for i in range(own, ct.cdiv(M, TM), ct.num_blocks(0)):",
        "for i in range(own * PER, min((own + 1) * PER, M)):",
    ),
)
_COUNTED = vary(
    NORM_BACKWARD,
    ("TM: Int, TN: Int):", "TM: Int, TN: Int, PER: Int):"),
    (
        "for i in range(own, ct.cdiv(M, TM), ct.num_blocks(0)):",
        "for n in range(PER):\n        i = own * PER + n",
    ),
)


class PersistentBlockedPartition(Pattern):
    """Work items run from the block id times a chunk to the next multiple."""

    name = "persistent-blocked-partition"
    axis = "work_decomposition"
    source = "tilelore catalogue, P03"
    matches = (
        Case(_BLOCKED, "persistent blocked (contiguous chunk per CTA)"),
        Case(_COUNTED, "persistent blocked (contiguous chunk per CTA)"),
    )
    near_misses = (
        NearMiss(NORM_BACKWARD, why="items are strided over the blocks"),
        NearMiss(ATTENTION, why="the loop runs over keys, and its bound is a mask's"),
        NearMiss(NORM_BACKWARD_POINTER, why="items are strided over the blocks"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            chunk = self._chunk(facts, loop)
            if chunk:
                value = "persistent blocked (contiguous chunk per CTA)"
                yield self.decide(facts, value, (*chunk, loop.node.head))

    def _chunk(self, facts: Facts, loop: Loop) -> list[Node]:
        carried = loop.of(Role.SUM, Role.ACCUMULATOR)
        if facts.contractions or (not carried and not self._stores(facts, loop)):
            return []
        if blocked(loop, facts.values):
            bounds = (loop.low, loop.high)
            return [
                n for b in bounds if (n := facts.graph.producer(facts.graph.core(b))) is not None
            ]
        return self._counted(facts, loop)

    def _stores(self, facts: Facts, loop: Loop) -> bool:
        return any(a.node.inside(loop.node) for a in facts.stores)

    def _counted(self, facts: Facts, loop: Loop) -> list[Node]:
        """block * chunk + loop variable, with the chunk as trip count."""
        count = facts.values.expr(loop.high).atom if loop.high is not None else None
        step = facts.values.expr(loop.induction).atom if loop.induction is not None else None
        if count is None or step is None or count.kind is not AtomKind.PARAMETER:
            return []
        found = []
        for node in facts.graph.nodes:
            if node.result and node.inside(loop.node):
                expr = facts.values.exprs.get(node.result)
                if expr is None or len(expr.terms) != 2 or expr.coefficient(step).constant != 1:
                    continue
                others = [f for f, _ in expr.terms if step not in f]
                if (
                    others
                    and count in others[0]
                    and any(a.kind is AtomKind.BLOCK for a in others[0])
                ):
                    found.append(node)
        return found[:1]
