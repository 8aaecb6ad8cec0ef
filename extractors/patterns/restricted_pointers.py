"""Pointers that are promised to be the only way to what they point at."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.in_place_update import promised, rewritten
from kb.analysis.facts import Facts
from kb.evidence import Decision

_PROMISED = """__global__ void copy(const float* __restrict__ x, float* __restrict__ out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at];
}
"""


class RestrictedPointers(Pattern):
    """Parameters qualified so that the compiler may reorder and cache their loads; of a kernel that
    writes over none of them."""

    name = "restrict-qualified-pointers"
    axis = "aliasing"
    source = "NVIDIA, CUDA C++ Programming Guide, __restrict__"
    matches = (Case(_PROMISED, "__restrict__"),)
    near_misses = (
        NearMiss(_PROMISED.replace("__restrict__ ", ""), why="nothing is promised"),
        NearMiss(ADD_THREADS, why="nothing is promised"),
        NearMiss(_PROMISED.replace("out[at] = x", "out[at] += x"), why="told with the update"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        given = promised(facts)
        told = {p.name for p in given} & rewritten(facts)  # with what is written over
        if given and not told:
            yield self.decide(facts, "__restrict__", [p.span.lines for p in given])
