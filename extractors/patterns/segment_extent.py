"""Threads that walk a segment whose length is looked up."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT_POINTER, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_CHUNKS_THREADS
from kb.analysis.facts import Facts
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

_SEGMENT = """__global__ void scale(const float* x, const int* starts, float* out, float by) {
    int first = starts[blockIdx.x];
    int count = starts[blockIdx.x + 1] - first;
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[first + i] = x[first + i] * by;
}
"""


class SegmentExtent(Pattern):
    """A loop in which every thread moves elements of its own ends at a number that is loaded from
    where the block id says."""

    name = "loop-over-a-segment-that-is-looked-up"
    axis = "loop_extent"
    source = "CUDA C++ Programming Guide; prefix sums of lengths as in compressed sparse rows"
    matches = (Case(_SEGMENT, "clipped to valid range"),)
    near_misses = (
        NearMiss(
            vary(_SEGMENT, ("starts[blockIdx.x + 1] - first", "starts[0]")),
            why="every block walks as far",
        ),
        NearMiss(
            vary(_SEGMENT, ("out[first + i] = x[first + i]", "out[first] = x[first + i]"),
                 ("int i = threadIdx.x; i < count; i += blockDim.x", "int i = 0; i < count; ++i")),
            why="one element after the other is looked at by all threads",
        ),
        NearMiss(ROW_NORM_CHUNKS_THREADS, why="the bound is given"),
        NearMiss(ADD_THREADS, why="nothing loops"),
        NearMiss(PRODUCT_POINTER, why="the bound is given"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or facts.contractions:
            return
        found: list[Where] = []
        for loop in facts.loops:
            if loop.range is not None and _streams(facts, loop):
                ends = [
                    a
                    for a in facts.feeding(loop.high)
                    if not a.node.inside(loop.node) and any(i.has(AtomKind.BLOCK) for i in a.index)
                ]
                found += [*ends, loop.node.head] if ends else []
        if found:
            yield self.decide(facts, "clipped to valid range", found)


def _streams(facts: Facts, loop: Loop) -> bool:
    """Whether threads load or store elements of their own in every round."""
    return any(
        a.loop is loop.node and any(i.has(AtomKind.LANE) for i in a.index) for a in facts.accesses
    )
