"""Products that the program gives to the matrix unit by an instruction."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision

_INSTRUCTION = """#include <cuda_fp16.h>
#include <cstdint>
__device__ void step(float* c, const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__global__ void product(const uint32_t* x, const uint32_t* y, float* out, int k) {
    int lane = threadIdx.x;
    float c[4] = {0.f, 0.f, 0.f, 0.f};
    for (int i = 0; i < k; ++i) {
        uint32_t a[4], b[2];
        for (int j = 0; j < 4; ++j) a[j] = x[(i * 4 + j) * 32 + lane];
        for (int j = 0; j < 2; ++j) b[j] = y[(i * 2 + j) * 32 + lane];
        step(c, a, b);
    }
    for (int j = 0; j < 4; ++j) out[j * 32 + lane] = c[j];
}
"""  # noqa: E501


class MatrixInstruction(Pattern):
    """A matrix product of registers, shared or tensor memory that an instruction names, with the
    shape that the instruction takes."""

    name = "product-by-a-matrix-instruction"
    axis = "reduction_engine"
    source = "NVIDIA, PTX ISA, mma, wgmma.mma_async, tcgen05.mma"
    matches = (Case(_INSTRUCTION, "matrix unit, mma.sync m16n8k16"),)
    near_misses = (
        NearMiss(PRODUCT_THREADS, why="threads multiply number by number"),
        NearMiss(PRODUCT, why="the compiler chooses the instruction"),
        NearMiss(PRODUCT_POINTER, why="the compiler chooses the instruction"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        places: dict[str, list[Node]] = {}
        for product in facts.contractions:
            opcode, shape = product.op.attribute("opcode"), product.op.attribute("shape")
            if isinstance(opcode, str) and opcode:
                name = ".".join(opcode.split(".")[:2])
                value = f"matrix unit, {name} {shape or ''}".rstrip()
                places.setdefault(value, []).append(product)
        for value, where in places.items():
            yield self.decide(facts, value, where)
