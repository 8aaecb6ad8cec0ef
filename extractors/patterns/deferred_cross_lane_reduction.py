"""Whether lanes are combined in every iteration, or kept apart and combined once."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT
from extractors.patterns.cases_rows import ROW_NORM, ROW_NORM_CHUNKS, SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import ROW_NORM_CHUNKS_POINTER, ROW_NORM_POINTER
from extractors.patterns.cases_rows_threads import ROW_NORM_CHUNKS_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role, persistent
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind


class DeferredCrossLaneReduction(Pattern):
    """A carried tile is updated lane by lane and reduced after the loop; or a reduction feeds the
    carry."""

    name = "deferred-cross-lane-reduction"
    axis = "reduction_placement"
    source = "Harris, Optimizing Parallel Reduction in CUDA: threads sum before they exchange"
    matches = (
        Case(ROW_NORM_CHUNKS, "accumulate lane-wise, reduce once after the loop"),
        Case(SOFTMAX_CHUNKS, "reduce every iteration to a scalar/row"),
        Case(ROW_NORM_CHUNKS_POINTER, "accumulate lane-wise, reduce once after the loop"),
        Case(ROW_NORM_CHUNKS_THREADS, "accumulate lane-wise, reduce once after the loop"),
    )
    near_misses = (
        NearMiss(ROW_NORM, why="no loop runs over the row"),
        NearMiss(PRODUCT, why="a product, no reduction"),
        NearMiss(ROW_NORM_POINTER, why="no loop runs over the row"),
        NearMiss(ROW_NORM_THREADS, why="no loop runs over the row"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            return
        deferred: list[Node] = []
        every: list[Node] = []
        for loop in facts.loops:
            if persistent(loop, facts.values):
                continue
            for state in loop.of(Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM):
                made = facts.graph.producer(state.next)
                after = self._after(facts, loop, state.result)
                inside = [
                    r
                    for r in facts.reductions
                    if r.loop is loop.node and facts.graph.rests_on(state.next, r)
                ]
                if after and facts.types.shape(state.result) and not inside:
                    deferred += [
                        n for n in (facts.graph.producer(state.init), made, *after) if n is not None
                    ]
                elif inside and self._row(facts, inside):
                    every += inside
        if deferred:
            yield self.decide(facts, "accumulate lane-wise, reduce once after the loop", deferred)
        if every:
            yield self.decide(facts, "reduce every iteration to a scalar/row", every)

    def _after(self, facts: Facts, loop: Loop, value: str) -> list[Node]:
        """Reductions of the final tile itself."""
        return [
            r
            for r in facts.reductions
            if r.op.kind in REDUCTIONS and not r.inside(loop.node)
            and self._added_to(facts, r.op.inputs[0], value)
        ]  # fmt: skip

    def _added_to(self, facts: Facts, value: str, tile: str, limit: int = 8) -> bool:
        """True for a tile itself, and for what a branch or an addition makes of it."""
        core = facts.graph.core(value)
        if core == tile:
            return True
        node = facts.graph.producer(core)
        if node is None or limit == 0 or node.op.kind not in (OpKind.IF, OpKind.ADD):
            return False
        feeds = facts.graph.feeds(core or "")
        return any(self._added_to(facts, feed, tile, limit - 1) for feed in feeds)

    def _row(self, facts: Facts, inside: list[Node]) -> bool:
        """True when what is reduced was loaded in the loop, chunk by chunk."""
        return any(a.loop is r.loop for r in inside for a in facts.feeding(r.op.inputs[0]))
