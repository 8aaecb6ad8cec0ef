"""Kernels that access arrays without masks. Written for this purpose; none is somebody else's."""

from __future__ import annotations

from extractors.patterns.cases import POINTER

WHOLE_THREADS = """template <int K>
__global__ void total(const float* x, float* out) {
    __shared__ float part[64];
    float sum = 0.f;
    for (int i = 0; i < K / 64; ++i) sum += x[blockIdx.x * K + i * 64 + threadIdx.x];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = 0.f;
        for (int w = 0; w < 64; ++w) all += part[w];
        out[blockIdx.x] = all;
    }
}
"""
SUMMED = (
    POINTER
    + """
@triton.jit
def total(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    sum = 0.0
    for j in range(0, n, T):
        sum += tl.sum(tl.load(x + row * n + j + tl.arange(0, T)))
    tl.store(out + row, sum)
"""
)
BLOCKS = (
    POINTER
    + """
@triton.jit
def move(x, out, n, T: tl.constexpr):
    own = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * T,), (T,), (0,))
    to = tl.make_block_ptr(out, (n,), (1,), (tl.program_id(0) * T,), (T,), (0,))
    tl.store(to, tl.load(own))
"""
)
