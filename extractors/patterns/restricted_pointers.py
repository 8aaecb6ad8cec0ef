"""Pointers that are promised to be the only way to what they point at."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ir import ParameterKind

_PROMISED = """__global__ void copy(const float* __restrict__ x, float* __restrict__ out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at];
}
"""


class RestrictedPointers(Pattern):
    """Parameters qualified so that the compiler may reorder and cache their loads."""

    name = "restrict-qualified-pointers"
    axis = "aliasing"
    source = "NVIDIA, CUDA C++ Programming Guide, __restrict__"
    matches = (Case(_PROMISED, "__restrict__"),)
    near_misses = (
        NearMiss(_PROMISED.replace("__restrict__ ", ""), why="nothing is promised"),
        NearMiss(ADD_THREADS, why="nothing is promised"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        promised = [
            parameter.span.lines
            for parameter in facts.kernel.entry.parameters
            if parameter.kind is ParameterKind.ARRAY and "restrict" in parameter.annotation.split()
            if not parameter.struct  # the host side tells of fields, where they are declared
        ]
        if promised:
            yield self.decide(facts, "__restrict__", promised)
