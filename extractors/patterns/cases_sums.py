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
FILTERED_THREADS = """__global__ void filter(const float* x, const float* w, float* out, float b) {
    float factors[4], own[8], y[5];
    for (int i = 0; i < 4; ++i) factors[i] = w[i];
    for (int i = 0; i < 8; ++i) own[i] = x[threadIdx.x * 5 + i];
    for (int i = 0; i < 5; ++i) {
        y[i] = b;
        for (int k = 0; k < 4; ++k) y[i] += factors[k] * own[i + k];
    }
    for (int i = 0; i < 5; ++i) out[threadIdx.x * 5 + i] = y[i];
}
"""
STORED_BESIDE_THREADS = """template <typename T>
__global__ void norm(T* x, T* out, const float by, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    T sum = 0;
    for (int i = 0; i < n; ++i) {
        T own = x[row * n + i];
        x[row * n + i] = by * x[row * n + i];
        sum += own * own;
    }
    out[row] = sum;
}
"""
