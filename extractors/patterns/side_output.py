"""What a kernel stores beside its output."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_LSE, PRODUCT
from extractors.patterns.cases_merges_threads import GATED_THREADS, MERGE_LOOP_THREADS
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER, ROW_NORM, RUNNING_NORM
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.merging import log_sums
from kb.analysis.normalisations import normalisations
from kb.analysis.types import broadcast
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind


class SideOutput(Pattern):
    """Stores that are narrower than the output and computed from a reduction."""

    name = "statistics-stored-beside-the-output"
    axis = "side_output"
    source = "tilelore catalogue, axis side_output; Dao et al., FlashAttention (2022)"
    matches = (
        Case(ATTENTION_LSE, "log-sum-exp"),
        Case(LAYER_NORM_POINTER, "statistics saved for backward"),
        Case(ROW_NORM, "statistics saved for backward"),
        Case(ATTENTION, "none"),
        Case(RUNNING_NORM, "statistics saved for backward"),
        Case(LAYER_NORM_THREADS, "statistics saved for backward"),
        Case(MERGE_LOOP_THREADS, "log-sum-exp"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="a product has no statistics to save"),
        NearMiss(ADD_POINTER, why="nothing is reduced"),
        NearMiss(PRODUCT_THREADS, why="a product has no statistics to save"),
        NearMiss(GATED_THREADS, why="a softplus is no log-sum-exp", value="log-sum-exp"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.stores:
            return
        merged = [s for _, added in log_sums(facts) for s in facts.stored_in(added.result)]
        if merged and any(s not in merged for s in facts.stores):
            alike = [s for s in facts.stores if s.array in {m.array for m in merged}]
            yield self.decide(facts, "log-sum-exp", alike)
            return
        widest = max(_width(facts, s) for s in facts.stores)
        main = [s for s in facts.stores if _width(facts, s) == widest]
        side = [s for s in facts.stores if _width(facts, s) < widest and self._reduced(facts, s)]
        if not any(self._reduced(facts, s) for s in main) or widest == 0:
            return
        logs = [n for s in side for n in self._logarithm(facts, s)]
        if logs:
            yield self.decide(facts, "log-sum-exp", [*logs, *side])
        elif side:
            yield self.decide(facts, "statistics saved for backward", side)
        elif any(facts.graph.of(k) for k in (OpKind.EXP, OpKind.EXP2, OpKind.RSQRT)):
            yield self.decide(facts, "none", main)

    def _reduced(self, facts: Facts, store: Access) -> bool:
        roots = [norm.root for norm in normalisations(facts)]
        return bool(facts.graph.roots(store.value, *REDUCTIONS)) or any(
            facts.graph.rests_on(store.value, root) for root in roots
        )

    def _logarithm(self, facts: Facts, store: Access) -> list[Node]:
        return facts.graph.roots(store.value, OpKind.LOG, OpKind.LOG2)


def _width(facts: Facts, store: Access) -> int:
    """Axes that a store runs over: those of its element indices, else those of its value."""
    shape = facts.types.shape(store.value)
    if store.mode is Mode.ELEMENT:
        places = facts.values.items(store.node.op.operand("index"))
        shape = reduce(broadcast, (facts.types.shape(place) for place in places), ())
    return len([extent for extent in shape if extent != "1"])
