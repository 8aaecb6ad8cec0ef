"""Kernels that the cases of casts between memory and arithmetic are cut from. Written for this
purpose."""

from __future__ import annotations

from extractors.patterns.cases import POINTER

BY_FLAG = (
    POINTER
    + """
@triton.jit
def bend(x, out, n, FINE: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
    if FINE:
        made = tl.exp(v.to(tl.float32)).to(v.dtype)
    else:
        made = tl.exp(v)
    tl.store(out + at, made, mask=at < n)
"""
)
PLACE = """__global__ void last(const int* x, short* out, int n) {
    int kept = 0;
    for (int i = threadIdx.x; i < n; i += 32) kept = x[i] > 0 ? i : kept;
    out[threadIdx.x] = static_cast<short>(kept);
}
"""
BYTES = """__global__ void widen(const unsigned char* x, half* out) {
    int at = blockIdx.x * 1024 + threadIdx.x * 4;
    unsigned word = *reinterpret_cast<const unsigned*>(x + at);
    uint2 made;
    made.x = word & 0xff00ff00;
    made.y = (word & 0x00ff00ff) << 8;
    *reinterpret_cast<uint2*>(out + at) = made;
}
"""
JOINED = """union Two { unsigned bits; half2 pair; };
__global__ void twice(const float* x, half* out) {
    int at = blockIdx.x * 256 + threadIdx.x;
    Two made;
    made.pair = __floats2half2_rn(2.f * x[2 * at], 2.f * x[2 * at + 1]);
    reinterpret_cast<int*>(out)[at] = made.bits;
}
"""
LENGTHENED = """__global__ void spread(const int* ids, long* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = ids[at];
}
"""
