"""Sums of products that the warps of a block take apart and put together."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.stages import products_joined
from kb.evidence import Decision

_SPLIT = """#include <cstdint>
__device__ void step(float* c, uint32_t a, uint32_t b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a), "r"(b));
}
__global__ void product(const uint32_t* x, const uint32_t* y, float* out, int k) {
    __shared__ float part[4][4][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float c[4] = {0.f, 0.f, 0.f, 0.f};
    for (int i = warp; i < k; i += 4) step(c, x[i * 32 + lane], y[i * 32 + lane]);
    for (int j = 0; j < 4; ++j) part[warp][j][lane] = c[j];
    __syncthreads();
    if (warp == 0) {
        for (int j = 0; j < 4; ++j) {
            float all = part[0][j][lane] + part[1][j][lane] + part[2][j][lane] + part[3][j][lane];
            out[j * 32 + lane] = all;
        }
    }
}
"""  # noqa: E501
_STAGED = _SPLIT.replace(
    "part[0][j][lane] + part[1][j][lane] + part[2][j][lane] + part[3][j][lane]",
    "part[0][j][31 - lane] + 1.0f",
)


class WarpPartials(Pattern):
    """What a loop of products left in the registers of a warp goes through shared memory and is
    added to what other warps left there."""

    name = "products-of-warps-joined-in-shared-memory"
    axis = "contraction_split"
    source = "CUTLASS documentation, efficient GEMM in CUDA: sliced-K"
    matches = (Case(_SPLIT, "warps of a block split the sum"),)
    near_misses = (
        NearMiss(_STAGED, why="shared memory only turns the result for the store"),
        NearMiss(PRODUCT_THREADS, why="every thread takes its whole sum"),
        NearMiss(PRODUCT, why="one tile, one sum"),
        NearMiss(PRODUCT_POINTER, why="one tile, one sum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = products_joined(facts) if facts.of_threads else ()
        if found:
            yield self.decide(facts, "warps of a block split the sum", found)
