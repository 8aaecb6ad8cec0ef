"""A reduction of a block in two stages."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.stages import second_stage
from kb.evidence import Decision

_HEAD = """__global__ void total(const float* x, float* out, int n) {
    __shared__ float part[32];
    float acc = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc += x[blockIdx.x * n + i];
    for (int o = 16; o > 0; o >>= 1) acc += __shfl_xor_sync(0xffffffff, acc, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = acc;
    __syncthreads();
"""
_LOOPED = (
    _HEAD
    + """    float sum = 0.f;
    for (int k = 0; k < blockDim.x / 32; ++k) sum += part[k];
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
"""
)
_HANDED = _HEAD + "    if (threadIdx.x == 0) out[blockIdx.x] = part[0] + 1.f;\n}\n"


class TwoStageReduction(Pattern):
    """Shuffles combine a warp, shared memory holds one number per warp, and those are combined."""

    name = "two-stage-block-reduction"
    axis = "reduction_scheme"
    source = "Luitjens, Faster Parallel Reductions on Kepler (2014), block reduce"
    matches = (
        Case(_LOOPED, "tree/warp shuffle then shared memory"),
        Case(ROW_NORM_THREADS, "tree/warp shuffle then shared memory"),
    )
    near_misses = (
        NearMiss(_HANDED, why="one warp's result is handed on, nothing combines those of several"),
        NearMiss(FLASH_THREADS, why="a row belongs to one warp"),
        NearMiss(ADD_THREADS, why="nothing is reduced"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.program is facts.source:
            return
        stages = second_stage(facts)
        if stages:
            yield self.decide(facts, "tree/warp shuffle then shared memory", stages)
