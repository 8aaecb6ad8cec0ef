"""Sample kernels that count what they find with atomics, or add counts up. Written for this
purpose; none is somebody else's.
"""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE

COUNT = (
    POINTER
    + """
@triton.jit
def count(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    own = tl.load(x + at, mask=at < n)
    tl.atomic_add(out + own, 1, mask=at < n)
"""
)
COUNT_TILE = (
    TILE
    + """
@ct.kernel
def count(x, out, T: Int):
    own = ct.load(x, index=(ct.bid(0),), shape=(T,))
    ct.atomic_add(out, own, 1)
"""
)
COUNT_THREADS = """__global__ void count(const int* x, int* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) atomicAdd(out + x[at], 1);
}
"""
LISTED = (
    POINTER
    + """
@triton.jit
def listed(ids, out, w, n, T: tl.constexpr):
    own, at = tl.load(ids + tl.program_id(0)), tl.arange(0, T)
    tl.atomic_add(out + own * n + at, tl.load(w + own * n + at))
"""
)
"""Rows of a list are added where the list says."""
COUNTED = (
    POINTER
    + """
@triton.jit
def offsets(counts, out, n, T: tl.constexpr):
    total = 0
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        part = tl.load(counts + at, mask=at < n, other=0)
        tl.store(out + at, tl.cumsum(part, 0) - part + total, mask=at < n)
        total += tl.sum(part, 0)
"""
)
COUNTED_ROWS = (
    POINTER
    + """
@triton.jit
def means(x, out, n, T: tl.constexpr):
    lanes = tl.arange(0, T)
    total = tl.zeros((T,), dtype=tl.float32)
    held = tl.zeros((T,), dtype=tl.int32)
    for i in range(0, n, T):
        total += tl.load(x + i + lanes, mask=i + lanes < n, other=0.0).to(tl.float32)
        held += (i + lanes < n).to(tl.int32)
    tl.store(out + lanes, total / held)
"""
)
REPLAYED_THREADS = """__global__ void pick(const float* x, float* out, int* kept, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = x[i] > 0.f ? x[i] : 0.f;
        if (kept != nullptr) kept[i] = x[i] > 0.f;
    }
}
"""
