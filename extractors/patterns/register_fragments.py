"""Operands of a product that a thread holds in registers and uses several times."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.blocked_products import register_product
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.shared import SharedMemory
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_BLOCKED = """__global__ void product(const float* a, const float* b, float* out, int N, int K) {
    __shared__ float ta[8][64];
    __shared__ float tb[8][64];
    float acc[4][4] = {};
    float x[4], y[4];
    int row = threadIdx.x / 16;
    int col = threadIdx.x % 16;
    for (int t = 0; t < K; t += 8) {
        for (int i = threadIdx.x; i < 512; i += 256) {
            ta[i % 8][i / 8] = a[(blockIdx.y * 64 + i / 8) * K + t + i % 8];
            tb[i / 64][i % 64] = b[(t + i / 64) * N + blockIdx.x * 64 + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            for (int i = 0; i < 4; ++i) x[i] = ta[k][row * 4 + i];
            for (int j = 0; j < 4; ++j) y[j] = tb[k][col * 4 + j];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            out[(blockIdx.y * 64 + row * 4 + i) * N + blockIdx.x * 64 + col * 4 + j] = acc[i][j];
}
"""
_COLUMN = vary(
    _BLOCKED,
    ("float x[4], y[4];", "float x, y[4];"),
    ("for (int i = 0; i < 4; ++i) x[i] = ta[k][row * 4 + i];", ""),
    ("for (int j = 0; j < 4; ++j) acc[i][j] += x[i] * y[j];",
     "{ x = ta[k][row * 4 + i]; for (int j = 0; j < 4; ++j) acc[i][j] += x * y[j]; }"),
)  # fmt: skip


class RegisterFragments(Pattern):
    """Elements of both shared tiles are taken to registers, and each is multiplied with several of
    the other."""

    name = "fragments-reused-from-registers"
    axis = "load_reuse"
    source = 'CUTLASS, "Efficient GEMM in CUDA": thread-level GEMM'
    matches = (
        Case(_BLOCKED, "fragments in registers"),
        Case(_COLUMN, "fragments in registers"),
    )
    near_misses = (
        NearMiss(PRODUCT_THREADS, why="every element is read from the shared tile for one product"),
        NearMiss(
            vary(_BLOCKED, ("acc[i][j] += x[i] * y[j]", "acc[i][j] += x[i] + y[j]")),
            why="nothing is multiplied",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or not facts.contractions or facts.threads.of(*CONTRACTIONS):
            return
        shared = SharedMemory(facts.threads)
        where: list[Node] = []
        for loop in facts.threads.of(OpKind.FOR):
            found = register_product(facts.threads, shared, loop.op)
            if found is not None and not any(loop.inside(other) for other in where):
                loads = [n for n in facts.threads.of(OpKind.LOAD) if n.op in found[:2]]
                where += [loop, *loads]
        if where:
            yield self.decide(facts, "fragments in registers", where)
