"""Threads that stride over a row and stop where it ends, and blocks that leave outside."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.thread_guard import (
    AROUND,
    STORED,
    ended_rounds,
    leaves,
    leaving_blocks,
    told_ways,
)
from kb.analysis.facts import Facts
from kb.analysis.padded import padded
from kb.evidence import Decision

BLOCKS = "early return of whole blocks"
_STRIDED = """__global__ void twice(const float* x, float* out, int n) {
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x)
        out[at] = x[at] + x[at];
}
"""
_DIAGONAL = """__global__ void scale(const float* x, float* out, float by, int T) {
    int row = blockIdx.x;
    for (int at = threadIdx.x; at <= row; at += blockDim.x)
        out[row * T + at] = x[row * T + at] * by;
}
"""
_CHUNKS = """__global__ void twice(const float* x, float* out, int n) {
    for (int from = blockIdx.x * 256; from < n; from += gridDim.x * 256)
        out[from + threadIdx.x] = x[from + threadIdx.x];
}
"""

_HELD = """__global__ void twice(const float* x, float* out, int n) {
    for (int at = threadIdx.x, i = 0; at < n && i < 4; ++i) {
        out[blockIdx.x * n + at] = 2.f * x[blockIdx.x * n + at];
        at += blockDim.x;
    }
}
"""
_BESIDE = """__global__ void twice(const float* x, float* out, int n) {
    for (int i = 0; blockDim.x * i + threadIdx.x < n; i++) {
        int at = blockIdx.x * n + blockDim.x * i + threadIdx.x;
        out[at] = 2.f * x[at];
    }
}
"""


_PLANES = """__global__ void scale(const float* x, const float* by, float* out, int n, int h) {
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += blockDim.x * gridDim.x)
        for (int i = 0; i < h; ++i) out[at * h + i] = x[at * h + i] * by[i];
}
"""


_STAGED = """__global__ void total(const float* x, float* out, int n) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        __pipeline_memcpy_async(row + i, x + blockIdx.x * n + i, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    float v = 0.f;
    for (int i = 0; i < n; ++i) v += row[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
"""


_PICKED = """__global__ void scale(const float* x, const float* by, float* out, int n, int parts) {
    __shared__ float factor[64];
    if (threadIdx.x < parts) factor[threadIdx.x] = by[threadIdx.x];
    __syncthreads();
    for (int at = threadIdx.x; at < n; at += blockDim.x)
        out[blockIdx.x * n + at] = x[blockIdx.x * n + at] * factor[0];
}
"""


_SLOT = """__global__ void put(const float* x, const int* slot, float* out, int rows) {
    int row = blockIdx.x;
    if (slot[row] < 0) return;
    out[slot[row] * 32 + threadIdx.x] = x[row * 32 + threadIdx.x];
}
"""


_CARRIED = """__global__ void total(const float* x, float* out, int rows, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, from = threadIdx.y * n + at;
    float sum = 0.f;
    for (int r = threadIdx.y; r < rows; r += blockDim.y) {
        sum += x[from];
        from += n * blockDim.y;
    }
    out[at * blockDim.y + threadIdx.y] = sum;
}
"""


class RoundsEndAtExtent(Pattern):
    """A loop that begins at the own thread and goes on by the number of threads accesses memory at
    its index, up to a bound that is known at run time; and nothing else is asked of positions. Or
    whole blocks leave before it: their item lies outside, or they were handed none; or a branch
    holds all that the others write."""

    name = "rounds-of-threads-end-at-the-extent"
    axis = "boundary_handling"
    source = "NVIDIA, CUDA Pro Tip: Write Flexible Kernels with Grid-Stride Loops (2013)"
    matches = (
        Case(_PICKED, "loop bound"),
        Case(_PLANES, "loop bound"),
        Case(_STRIDED, "loop bound"),
        Case(_DIAGONAL, "loop bound"),
        Case(_HELD, "loop bound"),
        Case(_BESIDE, "loop bound"),
        Case(_CARRIED, "loop bound"),
        Case(_STAGED, "loop bound"),
        Case(_SLOT, BLOCKS),
        Case(_SLOT.replace("slot[row] < 0", "row >= rows"), BLOCKS),
        Case(_SLOT.replace("slot[row] < 0", "row >= slot[rows]"), BLOCKS),
        Case(_SLOT.replace("slot[row] < 0) return;", "slot[row] >= 0)"), AROUND),
        Case(_SLOT.replace("slot[row] < 0) return;", "row < rows)"), AROUND),
        Case(_STRIDED.replace("    for", "    if (blockIdx.y < n)\n    for"), AROUND),
    )
    near_misses = (
        NearMiss(_HELD.replace("at < n && i < 4", "i < 4"), why="a number of rounds, no bound"),
        NearMiss(_STRIDED.replace("at < n", "at < 4096"), why="nothing lies outside"),
        NearMiss(_CHUNKS, why="all threads of a block go on together, past the end too"),
        NearMiss(
            _DIAGONAL.replace("x[row * T + at]", "x[row]").replace("out[row * T + at]", "out[row]"),
            why="no access goes along",
        ),
        NearMiss(
            _STRIDED.replace("out[at] =", "if (blockIdx.y * 4 + threadIdx.y < n) out[at] ="),
            why="a branch asks for another position: that is told",
        ),
        NearMiss(
            _SLOT.replace("slot[row] < 0", "slot[row] < 7"),
            why="a kind of item, none outside of anything",
        ),
        NearMiss(
            _SLOT.replace("slot[row] < 0", "slot[0] > rows"),
            why="all blocks leave or none",
        ),
        NearMiss(
            _SLOT.replace("slot[row] < 0) return;", "row < rows) out[row + rows] = 0.f;"),
            why="blocks outside write, too",
        ),
        NearMiss(ADD_THREADS, why="every thread has one element"),
        NearMiss(ROW_NORM_THREADS, why="lanes outside have a value: told with their padding"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or padded(facts):
            return  # Told with what lanes outside read.
        loops, blocks, ways = ended_rounds(facts), leaving_blocks(facts), told_ways(facts)
        around = [n for way, nodes in ways.items() if way != STORED for n in nodes]
        left = any(leaves(n.op) for n in blocks)
        if loops:
            value = "loop bound" if around or not blocks else BLOCKS if left else AROUND
            yield self.decide(facts, value, [*blocks, *loops, *around])
        elif blocks and not around:
            yield self.decide(facts, BLOCKS if left else AROUND, blocks)
