"""Blocks that leave early."""

from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary

TRIANGLE = (
    POINTER
    + """
@triton.jit
def half(x, out, n, T: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    if j > i:
        return
    at = i * n + j * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at))
"""
)
TRIANGLE_THREADS = """__global__ void half(const float* x, float* out, int n) {
    if (blockIdx.y > blockIdx.x) return;
    int at = blockIdx.x * n + blockIdx.y * blockDim.x + threadIdx.x;
    out[at] = x[at];
}
"""
COMPUTED = vary(
    PRODUCT_POINTER,
    (
        "    tl.store(out",
        "    if tl.max(tl.where(m[:, None] < tl.load(b), acc, 0.0)) < 0.5:\n        return\n"
        "    tl.store(out",
    ),
)
"""A block whose results are small stores nothing."""
