"""Whether the loads of the vectors that all rows share, or of keys and values, wait for
anything."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import (
    ADD_POINTER,
    LAYER_NORM_POINTER,
    ROW_NORM,
    ROW_NORM_CHUNKS,
    SOFTMAX,
)
from extractors.patterns.cases_rows_pointer import ROW_NORM_CHUNKS_POINTER, SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS, SOFTMAX_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.normalisations import normalisations
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

_LOOKED_UP = vary(
    ADD_POINTER,
    ("    inside = at < n\n", "    inside = at < n\n    at = tl.load(y + at)\n"),
)


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
        Case(ADD_POINTER, "independent of the compute"),
        Case(ROW_NORM_CHUNKS, "weights after the statistics"),
        Case(ROW_NORM_CHUNKS_POINTER, "weights after the statistics"),
    )
    near_misses = (
        NearMiss(_LOOKED_UP, why="one load says where the other one reads"),
        NearMiss(
            vary(
                ROW_NORM_CHUNKS_POINTER,
                (
                    "        part += v",
                    "        part += tl.load(w + at, mask=at < N, other=0.0) * v",
                ),
            ),
            why="the statistics need the weights, too",
        ),
        NearMiss(SOFTMAX, why="nothing is shared by the rows"),
        NearMiss(PRODUCT, why="operands of a product stream by"),
        NearMiss(SOFTMAX_POINTER, why="nothing is shared by the rows"),
        NearMiss(SOFTMAX_THREADS, why="nothing is shared by the rows"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        yield from self._streamed(facts)
        if facts.contractions:
            return
        if not facts.reductions:
            yield from self._elementwise(facts)
            return
        later = self._later(facts)
        if later:
            yield self.decide(facts, "weights after the statistics", later)
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

    def _elementwise(self, facts: Facts) -> Iterable[Decision]:
        """Tiles of several arrays, of which none is needed to find another."""
        wide = [a for a in facts.loads if facts.types.shape(a.value)]
        waits = any(self._waits(facts, a, b.node) for a in wide for b in wide)
        if len({a.array for a in wide}) > 1 and not waits:
            yield self.decide(facts, "independent of the compute", wide)

    def _later(self, facts: Facts) -> list[Access]:
        """Loads of a loop over the row that takes in what an earlier loop found for a root, of
        arrays that the earlier loop does not read."""
        roots = [norm.root for norm in normalisations(facts)]
        before = {n for root in roots for n in facts.graph.roots(root.result, *LOOPS)}
        seen = {a.array for a in facts.loads if a.loop in before}
        return [
            a
            for a in facts.loads
            if a.loop is not None
            and a.loop not in before
            and a.array not in seen
            and any(self._meets(facts, s, a, root) for s in facts.stores for root in roots)
        ]

    def _meets(self, facts: Facts, store: Access, load: Access, root: Node) -> bool:
        """True when a store of the load's loop takes both the load and the root in."""
        both = (load.node, root)
        return store.loop is load.loop and all(facts.graph.rests_on(store.value, n) for n in both)

    def _waits(self, facts: Facts, access: Access, reduction: Node) -> bool:
        return any(facts.graph.rests_on(value, reduction) for value in access.node.op.inputs)


def _own(access: Access) -> bool:
    return any(index.has(AtomKind.BLOCK) for index in access.index)
