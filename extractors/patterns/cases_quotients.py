"""Small kernels that divide rows, sums and elements."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE

KEPT = (
    POINTER
    + """
@triton.jit
def keep(x, out, n, p, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, v / (1 - p), mask=at < n)
"""
)

FOLDED = (
    TILE
    + """
@ct.kernel
def keep(x, out, P: ct.Constant[float], T: Int):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    if P >= 1.0:
        rate = ct.zeros((T,), dtype=v.dtype)
    else:
        rate = ct.full((T,), 1.0 / (1.0 - P), dtype=v.dtype)
    ct.store(out, index=(ct.bid(0),), tile=v * rate)
"""
)

MEAN = (
    POINTER
    + """
@triton.jit
def mean(x, out, n, T: tl.constexpr):
    total = 0.0
    for i in range(0, n, T):
        total += tl.sum(tl.load(x + i + tl.arange(0, T)), axis=0)
    tl.store(out, total / n)
"""
)

COEFFICIENT = (
    POINTER
    + """
@triton.jit
def back(x, g, r, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at)
    u = tl.load(g + at)
    k = tl.load(r + tl.program_id(0))
    by = -(k * k * tl.sum(u * v, axis=0)) / n
    tl.store(out + at, k * (u + by * v))
"""
)

RUNNING = (
    POINTER
    + """
@triton.jit
def running(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(out + tl.program_id(0) * n + at, tl.cumsum(v, axis=0) / (at + 1))
"""
)

MEAN_OF_TILE = (
    POINTER
    + """
@triton.jit
def mean(x, out, n, W: tl.constexpr, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    cols = tl.arange(0, W)
    v = tl.load(x + rows[:, None] * W + cols[None, :], mask=rows[:, None] < n, other=0.0)
    left = tl.minimum(T, n - tl.program_id(0) * T)
    tl.store(out + tl.program_id(0) * W + cols, tl.sum(v, axis=0) / left)
"""
)

ROWS_DIVIDED = (
    POINTER
    + """
@triton.jit
def back(x, r, out, n, m, T: tl.constexpr, R: tl.constexpr):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    at = rows[:, None] * m + tl.arange(0, T)[None, :]
    k = tl.load(r + rows, mask=rows < n)
    tl.store(out + at, (k / m)[:, None] * tl.load(x + at, mask=rows[:, None] < n))
"""
)

SWISH = (
    TILE
    + """
@ct.kernel
def swish(x, y, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    gate = ct.gather(y, at)
    ct.scatter(out, at, ct.gather(x, at) * (1.0 / (1.0 + ct.exp(-gate))))
"""
)

SHARE = (
    POINTER
    + """
@triton.jit
def share(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, T)
    v = tl.load(x + at)
    top = tl.sum(tl.load(y + at), axis=0)
    total = tl.sum(v, axis=0)
    tl.store(out + at, top / total * v)
"""
)

STEP_THREADS = """__global__ void step(float* w, const float* m, const float* v, int n, float eps) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) w[at] -= m[at] / (sqrtf(v[at]) + eps);
}
"""
SCALED_THREADS = """__global__ void scaled(const float* x, const float* by, float* out, int n) {
    int row = blockIdx.x;
    float scale = by[row] > 0.f ? 1.f / by[row] : 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[row * n + i] = x[row * n + i] * scale;
}
"""
