"""Sample programs that read two pieces of one array."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE, vary

HALVES = (
    POINTER
    + """
@triton.jit
def gate(x, out, s, H: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * s + tl.arange(0, T)
    inside = tl.arange(0, T) < H
    u = tl.load(x + at, mask=inside)
    v = tl.load(x + at + H, mask=inside)
    tl.store(out + at, u * tl.sigmoid(u) * v, mask=inside)
"""
)

EITHER = (
    ("    u =", "    if s > 1:\n        v ="), ("u * tl.sigmoid(u) * v", "v"),
    ("    v = tl.load(x + at + H", "    else:\n        v = tl.load(x + at + H"),
)  # fmt: skip
HALVES_TILE = (
    TILE
    + """
@ct.kernel
def gate(x, out, H: Int, T: Int):
    row = ct.bid(0)
    at = ct.bid(1) * T + ct.arange(T, dtype=ct.int32)
    u = ct.astype(ct.gather(x, (row, at)), ct.float32)
    v = ct.astype(ct.gather(x, (row, at + H)), ct.float32)
    ct.scatter(out, (row, at), ct.astype(u / (1.0 + ct.exp(-u)) * v, out.dtype))
"""
)
APART_TILE = vary(
    HALVES_TILE,
    ("def gate(x, out,", "def gate(x, y, out,"),
    ("ct.gather(x, (row, at + H))", "ct.gather(y, (row, at))"),
)


TWO_TILES = (
    TILE
    + """
@ct.kernel
def turn(x, out, H: Int):
    row = ct.bid(0)
    u = ct.load(x, (row, 0), (1, H))
    v = ct.load(x, (row, 1), (1, H))
    ct.store(out, (row, 0), u - v)
    ct.store(out, (row, 1), u + v)
"""
)


HALVES_THREADS = """__global__ void gate(const float* x, float* out, int s, int h) {
    int at = blockIdx.x * s + threadIdx.x;
    if (threadIdx.x < h) {
        float u = x[at];
        out[at] = u / (1.f + expf(-u)) * x[at + h];
    }
}
"""


HALVES_VECTORS = """__global__ void gate(const float4* x, float4* out, int h) {
    int wide = h / 4;
    const float4* row = x + blockIdx.x * 2 * wide;
    for (int i = threadIdx.x; i < wide; i += blockDim.x) {
        float4 u = row[i];
        float4 v = row[i + wide];
        out[blockIdx.x * wide + i] = make_float4(u.x * v.x, u.y * v.y, u.z * v.z, u.w * v.w);
    }
}
"""
HALVES_PACKED = """template <typename T, int V> struct alignas(16) Pack { T at[V]; };
template <typename T> __global__ void gate(const T* x, T* out, int h) {
    constexpr int V = 16 / sizeof(T);
    using P = Pack<T, V>;
    int wide = h / V;
    const P* row = reinterpret_cast<const P*>(x) + blockIdx.x * 2 * wide;
    P* to = reinterpret_cast<P*>(out) + blockIdx.x * wide;
    for (int i = threadIdx.x; i < wide; i += blockDim.x) {
        P u = row[i], v = row[i + wide], w;
        for (int j = 0; j < V; ++j) w.at[j] = u.at[j] * v.at[j];
        to[i] = w;
    }
}
"""
HALVES_WORDS = """__global__ void gate(const __half* x, __half* out, int h) {
    const unsigned* words = reinterpret_cast<const unsigned*>(x);
    unsigned* to = reinterpret_cast<unsigned*>(out);
    int wide = h / 8;
    for (int i = threadIdx.x; i < wide; i += blockDim.x) {
        uint4 u = *reinterpret_cast<const uint4*>(&words[(blockIdx.x * (h / 4) + i) * 4]);
        uint4 v = *reinterpret_cast<const uint4*>(&words[(blockIdx.x * (h / 4) + wide + i) * 4]);
        *reinterpret_cast<uint4*>(&to[(blockIdx.x * wide + i) * 4]) =
            make_uint4(u.x * v.x, u.y * v.y, u.z * v.z, u.w * v.w);
    }
}
"""
SECTIONS = vary(
    TWO_TILES,
    (
        "    ct.store(out, (row, 0), u - v)",
        "    u = u + ct.load(x, (row, 2), (1, H))\n    ct.store(out, (row, 0), u - v)",
    ),
)
HALVES_STRIDED = vary(
    HALVES,
    ("s, H:", "s, hop, H:"),
    ("s + tl.arange(0, T)\n", "s + tl.arange(0, T) * hop\n"),
    ("+ H,", "+ H * hop,"),
    ("H: tl.constexpr", "H"),
)


HALVES_OF_TILE = (
    POINTER
    + """
@triton.jit
def rotate(x, out, n, s, hop, T: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    low = row[:, None] * s + tl.arange(0, D // 2)[None, :] * hop
    high = row[:, None] * s + tl.arange(D // 2, D)[None, :] * hop
    a = tl.load(x + low, mask=row[:, None] < n)
    b = tl.load(x + high, mask=row[:, None] < n)
    tl.store(out + row[:, None] * D + tl.arange(0, D // 2)[None, :], a * b, mask=row[:, None] < n)
"""
)
"""The second half of a tile begins in its middle."""
ROTATED = (
    POINTER
    + """
@triton.jit
def rotate(x, cos, sin, out, s, D: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    inside = at < D // 2
    c = tl.load(cos + row * D + at, mask=inside)
    d = tl.load(sin + row * D + at, mask=inside)
    u = tl.load(x + row * s + at, mask=inside)
    v = tl.load(x + row * s + at + D // 2, mask=inside)
    tl.store(out + row * s + at, u * c - v * d, mask=inside)
    tl.store(out + row * s + at + D // 2, v * c + u * d, mask=inside)
"""
)
THIRDS = (
    POINTER
    + """
@triton.jit
def twice(x, out, T: tl.constexpr):
    at = tl.program_id(0) * T * 3 + tl.arange(0, T)
    u = tl.load(x + at) + tl.load(x + at + T) + tl.load(x + at + 2 * T)
    tl.store(out + at, u)
"""
)
HALVES_FLAT = (
    POINTER
    + """
@triton.jit
def gate(x, out, n, H, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    offs = at + at // H * H
    v = tl.load(x + offs, mask=at < n)
    u = tl.load(x + H + offs, mask=at < n)
    tl.store(out + at, v * u, mask=at < n)
"""
)
SLICES = (
    TILE
    + """
@ct.kernel
def gate(x, out, H: Int, T: Int):
    i = ct.bid(0)
    v = ct.load(x.slice(axis=1, start=0, stop=H), index=(i, 0), shape=(1, T))
    u = ct.load(x.slice(axis=1, start=H, stop=2 * H), index=(i, 0), shape=(1, T))
    ct.store(out, index=(i, 0), tile=v * u)
"""
)
HALVES_DESCRIBED = (
    POINTER
    + """
@triton.jit
def turn(x, out, cos, H: tl.constexpr):
    row = tl.program_id(0)
    c = tl.load(cos + tl.arange(0, H))
    u = x.load([row, 0, 0]).reshape((H,))
    v = x.load([row, 1, 0]).reshape((H,))
    x.store([row, 0, 0], (u - v * c).reshape((1, 1, H)))
    x.store([row, 1, 0], (v + u * c).reshape((1, 1, H)))
"""
)

BESIDE_THREADS = """__global__ void sums(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x * 2 + threadIdx.x, to = blockIdx.x * blockDim.x + threadIdx.x;
    if (at + blockDim.x < n) out[to] = x[at] + x[at + blockDim.x];
}
"""
"""Every block adds up two tiles that lie beside each other."""

PIECES_THREADS = """template <int W>
__global__ void halves(const float* x, float* out, int n) {
    for (int at = 0; at < n; at += 2 * W) {
        int one = at + threadIdx.x, other = at + W + threadIdx.x;
        if (other < n) out[one] = x[one] + x[other];
    }
}
"""
"""The same over a row, two pieces in a round."""

OTHER_PIECES = (
    HALVES_PACKED.replace("h / V", "h / R")
    .replace("int V> struct", "int V, int R> struct")
    .replace("<typename T> __g", "<typename T, int R> __g")
    .replace("V>;", "V, R>;")
)
"""Halves that begin at pieces of another length than a vector's."""
