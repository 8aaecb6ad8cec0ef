"""One block that does everything."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT_POINTER, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

_OFFSETS = """__global__ void offsets(const int* ends, int* starts, int groups) {
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int g = 0; g < groups; ++g) {
            starts[g] = sum;
            sum += (ends[g] + 127) / 128 * 128;
        }
    }
}
"""
_COUNTS = """__global__ void count(const int* x, int* out, int n) {
    int mine = 0;
    for (int i = 0; i < n; ++i) mine += x[i] == threadIdx.x;
    out[threadIdx.x] = mine;
}
"""


class OneBlock(Pattern):
    """No block asks which one it is: threads of one block do all the work, or one thread does."""

    name = "one-block-does-everything"
    axis = "work_decomposition"
    source = "CUDA C++ Programming Guide, thread hierarchy: a grid of one block"
    matches = (
        Case(_OFFSETS, "one thread does everything"),
        Case(_COUNTS, "one block does everything"),
    )
    near_misses = (
        NearMiss(
            vary(_COUNTS, ("out[threadIdx.x]", "out[blockIdx.x * blockDim.x + threadIdx.x]")),
            why="the block id says where to store",
        ),
        NearMiss(
            vary(_OFFSETS, ("if (threadIdx.x == 0)", "if (threadIdx.x < groups)")),
            why="several threads work",
            value="one thread does everything",
        ),
        NearMiss(ADD_THREADS, why="the block id says where to store"),
        NearMiss(PRODUCT_POINTER, why="the block id says where to store"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        asks = (OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.CLUSTER_RANK, OpKind.OPAQUE)
        if not facts.of_threads or not facts.stores or facts.threads.of(*asks):
            return
        own = facts.threads.of(OpKind.THREAD_ID, OpKind.LANE_ID, OpKind.WARP_ID)
        chosen = [
            n
            for n in facts.threads.of(OpKind.IF)
            if facts.threads.kind_of(n.op.inputs[0]) == OpKind.EQ
            and facts.threads.roots(n.op.inputs[0], OpKind.THREAD_ID)
        ]
        alone = chosen and all(
            any(s.inside(n) for n in chosen) for s in facts.threads.of(OpKind.STORE)
        )
        value = "one thread does everything" if alone else "one block does everything"
        yield self.decide(facts, value, [*chosen, *own] if alone else own)
