"""Every block takes a contiguous chunk of the work items."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, TILE, vary
from extractors.patterns.cases_rows import NORM_BACKWARD
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_POINTER, SEQUENCES
from extractors.patterns.cases_rows_threads import NORM_BACKWARD_THREADS
from kb.analysis.chunks import chunk_steps
from kb.analysis.facts import Facts
from kb.evidence import Decision

_BLOCKED = vary(
    NORM_BACKWARD,
    ("TM: Int, TN: Int):", "TM: Int, TN: Int, PER: Int):"),
    (
        "for i in range(own, ct.cdiv(M, TM), ct.num_blocks(0)):",
        "for i in range(own * PER, min((own + 1) * PER, M)):",
    ),
)
CHUNK_COUNTED = vary(
    NORM_BACKWARD,
    ("TM: Int, TN: Int):", "TM: Int, TN: Int, PER: Int):"),
    (
        "for i in range(own, ct.cdiv(M, TM), ct.num_blocks(0)):",
        "for n in range(PER):\n        i = own * PER + n",
    ),
)


_BLOCKED_POINTER = vary(
    NORM_BACKWARD_POINTER,
    ("TN: tl.constexpr):", "TN: tl.constexpr, PER: tl.constexpr):"),
    (
        "for i in range(own, tl.cdiv(M, TM), tl.num_programs(0)):",
        "for i in range(own * PER, tl.minimum((own + 1) * PER, M)):",
    ),
)


_BLOCKED_THREADS = vary(
    NORM_BACKWARD_THREADS,
    ("int rows, int n)", "int rows, int n, int per)"),
    (
        "int row = blockIdx.x; row < rows; row += gridDim.x",
        "int row = blockIdx.x * per; row < min((blockIdx.x + 1) * per, rows); ++row",
    ),
)
_ROW_BY_NUMBERS = """__global__ void first(const float* x, float* out, int n) {
    float sum = 0.f;
    for (int i = 0; i < n; ++i) sum += x[blockIdx.x * n + i];
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
"""
_GROUP_THREADS = """__global__ void centre(float* x, int group, int n) {
    int at = blockIdx.x * group + threadIdx.x;
    int end = min(blockIdx.x * group + group, n);
    float sum = 0.f;
    for (int j = at; j < end; j += blockDim.x) sum += x[j];
    for (int j = at; j < end; j += blockDim.x) x[j] -= __shfl_sync(~0u, sum, 0) / group;
}
"""


_GROUP_BY_ROWS = (
    TILE
    + """
@ct.kernel
def centre(x, out, PER: Int, T: Int):
    own = ct.bid(0)
    total = ct.full((1, T), 0.0, dtype=ct.float32)
    for i in range(PER):
        total = total + ct.load(x, index=(own * PER + i, 0), shape=(1, T))
    middle = ct.sum(total, 1, keepdims=True) / PER
    for i in range(PER):
        v = ct.load(x, index=(own * PER + i, 0), shape=(1, T))
        ct.store(out, index=(own * PER + i, 0), tile=v - middle)
"""
)


class PersistentBlockedPartition(Pattern):
    """Work items run from the block id times a chunk to the next multiple."""

    name = "persistent-blocked-partition"
    axis = "work_decomposition"
    source = "tilelore catalogue, P03"
    matches = (
        Case(_BLOCKED, "persistent blocked (contiguous chunk per CTA)"),
        Case(CHUNK_COUNTED, "persistent blocked (contiguous chunk per CTA)"),
        Case(_BLOCKED_POINTER, "persistent blocked (contiguous chunk per CTA)"),
        Case(_BLOCKED_THREADS, "persistent blocked (contiguous chunk per CTA)"),
    )
    near_misses = (
        NearMiss(SEQUENCES, why="steps of one sequence, each from what the last one left"),
        NearMiss(NORM_BACKWARD, why="items are strided over the blocks"),
        NearMiss(ATTENTION, why="the loop runs over keys, and its bound is a mask's"),
        NearMiss(NORM_BACKWARD_POINTER, why="items are strided over the blocks"),
        NearMiss(NORM_BACKWARD_THREADS, why="items are strided over the blocks"),
        NearMiss(_GROUP_THREADS, why="the chunk is one row, which is summed up"),
        NearMiss(_GROUP_BY_ROWS, why="the rows of a group, of which each takes the sum of all"),
        NearMiss(_ROW_BY_NUMBERS, why="the numbers of one row are gone through one by one"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            chunk = chunk_steps(facts, loop)
            if chunk:
                value = "persistent blocked (contiguous chunk per CTA)"
                yield self.decide(facts, value, (*chunk, loop.node))
