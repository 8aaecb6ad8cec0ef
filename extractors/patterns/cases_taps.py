"""Convolutions along one axis whose channels have weights of their own, by the ways in which taps
and weights meet. Written for this purpose; none is somebody else's."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE, vary

TAPS_TILE = (
    TILE
    + """
@ct.kernel
def slide(x, w, out, T: Int):
    c = ct.bid(0)
    at = ct.bid(1) * T + ct.arange(T, dtype=ct.int32)
    u = ct.gather(x, (c, at)) * ct.gather(w, (c, 0))
    v = ct.gather(x, (c, at + 1)) * ct.gather(w, (c, 1))
    ct.scatter(out, (c, at), u + v)
"""
)
"""Taps and weights one by one."""

PICKED = (
    POINTER
    + """
@triton.jit
def slide(x, w, out, n, C, K: tl.constexpr, T: tl.constexpr, D: tl.constexpr):
    c = tl.program_id(0) * D + tl.arange(0, D)
    at = tl.program_id(1) * T + tl.arange(0, T)
    k = tl.arange(0, K)
    weights = tl.load(w + c[:, None] * K + k)
    acc = tl.zeros((T, D), tl.float32)
    for i in tl.static_range(K):
        row = at + i - K + 1
        v = tl.load(x + row[:, None] * C + c, mask=((row >= 0) & (row < n))[:, None], other=0.0)
        acc += v * tl.sum(weights * (k == i), 1)
    tl.store(out + at[:, None] * C + c, acc, mask=(at < n)[:, None])
"""
)
"""All weights of a channel in one tile, of which every round picks one."""

NOT_PICKED = vary(PICKED, ("(k == i)", "k"))
"""One factor for all taps: a sum over the weights."""

HELD = (
    POINTER
    + """
@triton.jit
def slide(x, w, out, n, C, D: tl.constexpr):
    c = tl.program_id(0) * D + tl.arange(0, D)
    w0 = tl.load(w + c * 3)
    w1 = tl.load(w + c * 3 + 1)
    w2 = tl.load(w + c * 3 + 2)
    u = tl.zeros((D,), tl.float32)
    v = tl.zeros((D,), tl.float32)
    for t in range(n):
        new = tl.load(x + t * C + c)
        tl.store(out + t * C + c, u * w0 + v * w1 + new * w2)
        u = v
        v = new
"""
)
"""A window of variables that moves along."""

UNWEIGHTED = vary(HELD, ("u * w0 + v * w1 + new * w2", "u + v + new"))
"""The window is summed as it is."""

REGISTERS = """template <int K, int E>
__global__ void slide(const float* x, const float* w, float* out, int n) {
    int c = blockIdx.x;
    float weights[K];
    float taps[E + K];
    float sums[E];
    for (int k = 0; k < K; ++k) { weights[k] = w[c * K + k]; }
    for (int i = 0; i < E + K; ++i) { taps[i] = x[c * n + threadIdx.x * E + i]; }
    for (int i = 0; i < E; ++i) {
        sums[i] = 0.f;
        for (int k = 0; k < K; ++k) { sums[i] += weights[k] * taps[i + k]; }
    }
    for (int i = 0; i < E; ++i) { out[c * n + threadIdx.x * E + i] = sums[i]; }
}
"""
"""Taps from registers, each for several outputs."""

ROWS = REGISTERS.replace("taps[E + K]", "taps[E * K]").replace("taps[i + k]", "taps[i * K + k]")
"""Rows side by side, each with elements of its own."""

HELD_THREADS = """template <int K>
__global__ void slide(const float* x, const float* w, float* out, int n, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    float weights[K];
    float taps[K] = {0};
    for (int k = 0; k < K; ++k) { weights[k] = w[c * K + k]; }
    for (int t = 0; t < n; ++t) {
        taps[K - 1] = x[t * C + c];
        float sum = 0.f;
        for (int k = 0; k < K; ++k) { sum += weights[k] * taps[k]; }
        out[t * C + c] = sum;
        for (int k = 0; k < K - 1; ++k) { taps[k] = taps[k + 1]; }
    }
}
"""
"""A window in an array of a thread that moves along."""
