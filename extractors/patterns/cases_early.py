"""Blocks that leave early."""

from extractors.patterns.cases import POINTER, PRODUCT_POINTER, TILE, vary

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
SKIPPED = (
    TILE
    + """
@ct.kernel
def ragged(x, lengths, out, N: Int, T: Int):
    wide = ct.cdiv(N, T)
    for item in range(ct.bid(0), ct.num_tiles(lengths, 0, (1,)) * wide, ct.num_blocks(0)):
        own = ct.gather(lengths, item // wide).item()
        i = item % wide
        if i * T < own:
            ct.store(out, index=(item // wide, i), tile=ct.load(x, index=(item // wide, i), shape=(1, T)))
"""  # noqa: E501
)


SKIPPED_POINTER = (
    POINTER
    + """
@triton.jit
def ragged(x, lengths, out, count, n, T: tl.constexpr):
    wide = tl.cdiv(n, T)
    for item in range(tl.program_id(0), count * wide, tl.num_programs(0)):
        own = tl.load(lengths + item // wide)
        first = (item % wide) * T
        if first < own:
            at = (item // wide) * n + first + tl.arange(0, T)
            tl.store(out + at, tl.load(x + at))
"""
)


LOOPED = (
    POINTER
    + """
@triton.jit
def rows(x, sizes, out, s, T: tl.constexpr):
    row = tl.program_id(0)
    first = tl.program_id(1) * T
    work = tl.where(first < tl.load(sizes + row), 1, 0)
    at = row * s + first + tl.arange(0, T)
    for turn in range(0, work, 1):
        tl.store(out + at, tl.load(x + at) * 2.0)
"""
)

SKIPPED_LOADED = vary(SKIPPED_POINTER, ("tl.cdiv(n, T)", "tl.cdiv(tl.load(x), T)"))
