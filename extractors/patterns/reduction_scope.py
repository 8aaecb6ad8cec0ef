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
from kb.analysis.facts import Facts
from kb.analysis.stages import second_stage, steps
from kb.evidence import Decision
from kb.ops import OpKind

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
        found = steps(facts)
        second = second_stage(facts)
        if second:
            yield self.decide(facts, "block", [*found, *second])
        elif found:
            scopes = {str(n.op.attribute("scope") or "warp") for n in found}
            yield self.decide(facts, min(scopes), found)
        adds = [
            a.node
            for a in facts.stores
            if a.node.op.kind == OpKind.ATOMIC_ADD and facts.feeding(a.value)
        ]
        if adds:
            yield self.decide(facts, "grid", adds)
