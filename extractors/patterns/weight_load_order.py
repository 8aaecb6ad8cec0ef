"""Whether the loads of the vectors that all rows share, or of keys and values, wait for
anything."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, PRODUCT
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, ROW_NORM, SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS, SOFTMAX_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision


class WeightLoadOrder(Pattern):
    """Loads that no block id moves do not depend on the reduction of the row, so that they may be
    in flight with it; or they do. The same of the loads of an attention's loop and its products.

    In which line they stand is no decision: independent statements may be exchanged.
    """

    name = "order-of-shared-and-own-loads"
    axis = "load_order"
    source = "NVIDIA, CUDA C++ Best Practices Guide: independent loads in flight hide latency"
    matches = (
        Case(LAYER_NORM_POINTER, "independent of the statistics"),
        Case(ROW_NORM, "independent of the statistics"),
        Case(LAYER_NORM_THREADS, "independent of the statistics"),
        Case(ATTENTION_POINTER, "independent of the scores"),
        Case(ATTENTION, "independent of the scores"),
    )
    near_misses = (
        NearMiss(SOFTMAX, why="nothing is shared by the rows"),
        NearMiss(PRODUCT, why="operands of a product stream by"),
        NearMiss(SOFTMAX_POINTER, why="nothing is shared by the rows"),
        NearMiss(SOFTMAX_THREADS, why="nothing is shared by the rows"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        yield from self._streamed(facts)
        if facts.contractions or not facts.reductions:
            return
        wide = [a for a in facts.loads if facts.types.shape(a.value) and a.loop is None]
        shared = [a for a in wide if not _own(a)]
        own = [a for a in wide if _own(a)]
        if not shared or not own:
            return
        late = [a for a in shared if any(self._waits(facts, a, r) for r in facts.reductions)]
        value = "weights after the statistics" if late else "independent of the statistics"
        yield self.decide(facts, value, [*shared, *own])

    def _streamed(self, facts: Facts) -> Iterable[Decision]:
        """Operands of both products of an attention that one loop loads."""
        for loop in dict.fromkeys(p.loop for p in facts.score_products if p.loop is not None):
            products = [p for p in facts.contractions if p.loop is loop]
            held = [a for p in products for v in p.op.inputs[:2] for a in facts.held_loads(v)]
            loads = [a for a in dict.fromkeys(held) if a.loop is loop]
            if len(loads) < 2:
                continue
            late = [a for a in loads if any(self._waits(facts, a, p) for p in products)]
            value = "operands after the scores" if late else "independent of the scores"
            yield self.decide(facts, value, loads)

    def _waits(self, facts: Facts, access: Access, reduction: Node) -> bool:
        return any(facts.graph.rests_on(value, reduction) for value in access.node.op.inputs)


def _own(access: Access) -> bool:
    return any(index.has(AtomKind.BLOCK) for index in access.index)
