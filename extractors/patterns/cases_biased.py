"""Source text for a bias that is added before an activation."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE

BIASED = (
    POINTER
    + """
@triton.jit
def curve(out, x, h, n, W: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, W)
    v = tl.load(x + row * n + at, mask=at < n) + tl.load(h + at, mask=at < n)
    tl.store(out + row * n + at, v * tl.sigmoid(v), mask=at < n)
"""
)
BIASED_TILE = (
    TILE
    + """
@ct.kernel
def curve(out, x, h, W: Int):
    row = ct.bid(0)
    v = ct.load(x, index=(row, 0), shape=(1, W)) + ct.load(h, index=(0,), shape=(W,))
    ct.store(out, index=(row, 0), tile=v / (1.0 + ct.exp(-v)))
"""
)
BIASED_THREADS = """__global__ void curve(const float* x, const float* h, float* out, int n) {
    int row = blockIdx.x;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[row * n + i] = tanhf(x[row * n + i] + h[i]);
}
"""
BIASED_FLAT_THREADS = """__global__ void curve(const float* x, const float* h, float* out, int n,
                      int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) out[i] = tanhf(x[i] + h[i % n]);
}
"""
