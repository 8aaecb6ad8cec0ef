"""What is read and what is written are arrays of their own, and the compiler is not told so."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ir import ParameterKind

_COPIED = """__global__ void twice(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = 2.f * x[at];
}
"""
_FILLED = """__global__ void fill(float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = 1.f;
}
"""


class ArraysApart(Pattern):
    """No pointer is promised to be the only way to its array; some arrays are only read, the others
    only written."""

    name = "read-and-written-arrays-apart-without-a-promise"
    axis = "aliasing"
    source = "NVIDIA, CUDA C++ Programming Guide, __restrict__"
    matches = (Case(_COPIED, "out of place"),)
    near_misses = (
        NearMiss(
            _COPIED.replace("const float* x", "const float* __restrict__ x"),
            why="the compiler is told so",
        ),
        NearMiss(_COPIED.replace("out[at] =", "out[at] +="), why="the output is read, too"),
        NearMiss(_FILLED, why="nothing is read"),
        NearMiss(ADD_POINTER, why="the language has no such promise"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        arrays = [p for p in facts.kernel.entry.parameters if p.kind is ParameterKind.ARRAY]
        if not facts.of_threads or any("restrict" in p.annotation.split() for p in arrays):
            return
        names = {p.name for p in arrays}
        read = names & {a.array for a in facts.loads}
        written = names & {a.array for a in facts.stores}
        if read and written and not read & written:
            stores = [a for a in facts.stores if a.array in written]
            declared = facts.declared(*(read | written))
            yield self.decide(facts, "out of place", [*declared, *stores])
