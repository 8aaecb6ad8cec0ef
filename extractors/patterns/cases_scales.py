"""Sample kernels that scale with one number. Written for this purpose."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, PRODUCT_POINTER, TILE, vary

SCALED_STAGES = (
    POINTER
    + """
@triton.jit
def turn(x, out, rate, T: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * T + at)
    for s in tl.static_range(STAGES):
        a, b = tl.split(tl.reshape(v, (T // 2, 2)))
        v = tl.reshape(tl.join(a + b, a - b), (T,))
    tl.store(out + tl.program_id(0) * T + at, v * rate)
"""
)
SCALED_SUM = (
    POINTER
    + """
@triton.jit
def scores(q, k, slope, out, rate, T: tl.constexpr, D: tl.constexpr):
    d = tl.arange(0, D)
    at = tl.program_id(0) * T + tl.arange(0, T)
    s = tl.sum(tl.load(q + d)[None, :] * tl.load(k + at[:, None] * D + d[None, :]), 1)
    tl.store(out + at, s * rate + tl.load(slope + at))
"""
)
SCALED_SUM_TILE = (
    TILE
    + """
@ct.kernel
def scores(q, k, out, rate, T: Int, D: Int):
    a = ct.load(q, index=(0, 0), shape=(1, D))
    b = ct.load(k, index=(ct.bid(0), 0), shape=(T, D))
    ct.store(out, index=(ct.bid(0),), tile=ct.sum(a * b, axis=1) * rate)
"""
)
SCALED_LAST = (
    SCALED_STAGES,
    vary(SCALED_STAGES, ("* rate)", "* (1.0 / tl.sqrt(T * 1.0)))")),
    SCALED_SUM,
    SCALED_SUM_TILE,
)
"""Sums of products, and stages of butterflies, that are scaled once they are done."""

NOT_SCALED_LAST = (
    vary(SCALED_STAGES, ("* rate)", "+ rate)")),
    vary(
        SCALED_STAGES, ("        a, b", "        v = v * rate\n        a, b"), ("v * rate)", "v)")
    ),
    vary(SCALED_SUM, ("s * rate +", "s + rate +")),
    vary(SCALED_SUM, ("tl.load(q + d)[None, :] * ", "")),
)
"""The same, not scaled, scaled in every stage, or a sum of what one array holds."""

SCALED_PARTS = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, out, rate,"),
    ("acc += tl.dot(x, y)", "acc += tl.dot(x, y) * rate"),
)
"""A product that every round of its loop scales."""

PACKED_SCALE = """__global__ void pack(const float* x, signed char* out, int n) {
    float v = x[blockIdx.x * 32 + threadIdx.x], top = fabsf(v);
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    float scale = exp2f(ceilf(log2f(top / 127.f)));
    out[blockIdx.x * n + threadIdx.x] = (signed char)(v / scale);
    if (threadIdx.x == 0) reinterpret_cast<float*>(out)[blockIdx.x * n / 4 + 8] = scale;
}
"""
"""A scale stored behind what it scales, in the same array."""

LARGEST_POINTER = (
    POINTER
    + """
@triton.jit
def largest(x, out, where, n, s, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    top = tl.full([T], -float("inf"), tl.float32)
    place = tl.full([T], -1, tl.int32)
    for t in range(n):
        v = tl.load(x + t * s + at)
        top, place = tl.where(v > top, v, top), tl.where(v > top, t, place)
    tl.store(out + at, top)
    tl.store(where + at, place)
"""
)
"""Places of the largest elements, which are stored beside them."""

EXPAND_EITHER = """__global__ void expand(
    const int* x, const int* y, const float* sx, const float* sy, float* out) {
    const int* words = blockIdx.y ? y : x;
    const float* scales = blockIdx.y ? sy : sx;
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = (float)(words[at / 8] >> at % 8 * 4 & 15) * scales[at / 32];
}
"""
"""Bits of one of two arrays, times the scale of the one that it is."""

NEAREST_THREADS = """__global__ void quantise(const float* x, unsigned* out, float* scales) {
    const int own = blockIdx.x * blockDim.x + threadIdx.x;
    float top = 0.f;
    for (int k = 0; k < 8; ++k) top = fmaxf(top, fabsf(x[own * 8 + k]));
    const float scale = top / 6.f;
    scales[own] = scale;
    unsigned word = 0;
    for (int k = 0; k < 8; ++k) word |= (unsigned)rintf(x[own * 8 + k] / scale) << 4 * k;
    out[own] = word;
}
"""
