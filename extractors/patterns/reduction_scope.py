"""Which threads a reduction runs over."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import (
    ADD_THREADS,
    NORM_BACKWARD_THREADS,
    ROW_NORM_THREADS,
)
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.exchanges import combined_shuffle
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.shared import SharedMemory
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_GRID = NORM_BACKWARD_THREADS.replace(
    "parts[blockIdx.x * n + at] = acc", "atomicAdd(parts + at, acc)"
)


class ReductionScope(Pattern):
    """Shuffles combine a warp; partial results in shared memory a block; atomics the grid."""

    name = "threads-that-a-reduction-runs-over"
    axis = "reduction_scope"
    source = "Luitjens, Faster Parallel Reductions on Kepler (2014): warp, block and grid"
    matches = (
        Case(FLASH_THREADS, "warp"),
        Case(ROW_NORM_THREADS, "block"),
        Case(_GRID, "grid"),
    )
    near_misses = (
        NearMiss(ADD_THREADS, why="nothing is reduced"),
        NearMiss(FLASH_THREADS, why="a row belongs to one warp", value="block"),
        NearMiss(ROW_NORM_THREADS, why="a row belongs to one block", value="grid"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.program is facts.source:
            return
        graph = facts.threads
        steps = [n for n in graph.nodes if combined_shuffle(graph, n.op) is not None]
        steps += graph.of(*REDUCTIONS)
        second = self._from_partials(facts, steps)
        if second:
            yield self.decide(facts, "block", steps)
        elif steps:
            scopes = {str(n.op.attribute("scope") or "warp") for n in steps}
            yield self.decide(facts, min(scopes), steps)
        adds = [
            a.node
            for a in facts.stores
            if a.node.op.kind == OpKind.ATOMIC_ADD and facts.feeding(a.value)
        ]
        if adds:
            yield self.decide(facts, "grid", adds)

    def _from_partials(self, facts: Facts, steps: list[Node]) -> bool:
        """Whether a step combines what another one left in shared memory."""
        graph, shared = facts.threads, SharedMemory(facts.threads)
        partial = [
            load
            for load in graph.of(OpKind.LOAD)
            if shared.holds(load.op)
            and any(graph.rests_on(v, step) for v in shared.stored(load.op) for step in steps)
        ]
        return any(graph.rests_on(step.result, load) for step in steps for load in partial)
