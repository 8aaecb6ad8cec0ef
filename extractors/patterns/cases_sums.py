"""Kernels that the cases of the precision of sums are cut from. Written for this purpose."""

from __future__ import annotations

from extractors.patterns.cases import POINTER

SOFTMAX_BARE = (
    POINTER
    + """
@triton.jit
def soft(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=float("-inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * n + at, e / tl.sum(e, axis=0), mask=at < n)
"""
)
MAXIMUM_THREADS = """__global__ void largest(const float* x, float* out, int n) {
    float top = -1e30f;
    for (int i = 0; i < n; i++) top = fmaxf(x[threadIdx.x * n + i], top);
    out[threadIdx.x] = top;
}
"""
