"""Kernels that the cases of the width of an access are cut from. Written for this purpose."""

from __future__ import annotations

from extractors.patterns.cases import vary
from extractors.patterns.cases_rows import ADD_POINTER

VECTORS_WIDE = """__global__ void plus(const float4* x, const float4* y, float4* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) {
        float4 v = x[at], w = y[at];
        out[at] = make_float4(v.x + w.x, v.y + w.y, v.z + w.z, v.w + w.w);
    }
}
"""
VECTORS_COUNTED = """constexpr int wide = 16;
template <typename T>
__global__ void plus(const T* x, T* out) {
    constexpr int many = wide / sizeof(T);
    const int at = threadIdx.x * many;
    *reinterpret_cast<uint4*>(out + at) = *reinterpret_cast<const uint4*>(x + at);
}
"""
"""The elements of a vector are counted by the size of one."""

VECTORS_UNIFORM = """__global__ void begin(const int* ends, int* out) {
    __shared__ int low;
    if (threadIdx.x == 0) low = ends[blockIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = low;
}
"""
VECTORS_CHOSEN = """template <typename T, int N> struct Pack {
    T data[N];
    __device__ void load(const T* p) { for (int i = 0; i < N; ++i) data[i] = p[i]; }
    __device__ void store(T* p) { for (int i = 0; i < N; ++i) p[i] = data[i]; }
    __device__ T& operator[](int i) { return data[i]; }
};
template <int W>
__global__ void twice(const float* x, float* out, int n) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * W;
    Pack<float, W> v;
    v.load(x + at);
    for (int k = 0; k < W; ++k) v[k] = v[k] + v[k];
    v.store(out + at);
}
"""
VECTORS_MOVED = vary(
    VECTORS_CHOSEN,
    (
        "    __device__ T& operator",
        "    static __device__ void copy(T* to, const T* from) {\n"
        "        for (int i = 0; i < N; ++i) to[i] = from[i];\n    }\n    __device__ T& operator",
    ),
    ("    Pack<float, W> v;\n    v.load(x + at);\n", ""),
    ("    for (int k = 0; k < W; ++k) v[k] = v[k] + v[k];\n", ""),
    ("    v.store(out + at);\n", "    Pack<float, W>::copy(out + at, x + at);\n"),
)
VECTORS_APART = """__global__ void halves(const float4* x, float* out, float* sums, int n) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float4 v = x[blockIdx.x * n + i];
        const float own[4] = {v.x, v.y, v.z, v.w};
        for (int k = 0; k < 4; ++k) {
            out[(blockIdx.x * n + i) * 4 + k] = own[k] / 2.f;
            sum += own[k];
        }
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
"""
VECTORS_COPIED = """__global__ void stage(const float* x, float* out, int n) {
    __shared__ float part[1024];
    unsigned to = __cvta_generic_to_shared(part + threadIdx.x * 4);
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0;\\n"
                 " @p cp.async.cg.shared.global [%1], [%2], 16; }"
                 ::"r"((int)(threadIdx.x * 4 < n)), "r"(to), "l"(x + threadIdx.x * 4));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    out[threadIdx.x] = part[threadIdx.x];
}
"""
VECTORS_SIZED = """template <typename T, int W> __global__ void stage(const T* x, T* out) {
    __shared__ T part[1024];
    __pipeline_memcpy_async(part + threadIdx.x * W, x + threadIdx.x * W, sizeof(T) * W);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    for (int k = 0; k < W; ++k) out[threadIdx.x * W + k] = part[threadIdx.x * W + k] * (T)2;
}
"""
VECTORS_TRAITS = """template <typename T, int N> struct Vec {
    using Whole = typename Bytes<N * sizeof(T)>::Type;
    using Held = union { Whole all; T each[N]; };
    Held data;
    __device__ void read(const void* from, const size_t at) {
        this->data.all = static_cast<const Whole*>(from)[at];
    }
    __device__ void write(void* to, const size_t at) {
        static_cast<Whole*>(to)[at] = this->data.all;
    }
};
template <typename T, int N> __global__ void twice(const void* x, void* out) {
    Vec<T, N> v;
    v.read(x, blockIdx.x * blockDim.x + threadIdx.x);
    for (int k = 0; k < N; ++k) v.data.each[k] = v.data.each[k] + v.data.each[k];
    v.write(out, blockIdx.x * blockDim.x + threadIdx.x);
}
"""
VECTORS_CARRIED = """template <typename T, typename V> __global__ void bound(T* x, int n) {
    constexpr int W = sizeof(V) / sizeof(T);
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * W;
    T own[W];
    *reinterpret_cast<V*>(own) = *reinterpret_cast<V*>(x + at);
    for (int k = 0; k < W; ++k) own[k] = own[k] > (T)n ? (T)n : own[k];
    *reinterpret_cast<V*>(x + at) = *reinterpret_cast<V*>(own);
}
"""
VECTORS_UNKNOWN = """#include "packs.cuh"
template <int W>
__global__ void twice(Pack<float, W>* x, Pack<float, W>* out, float rate) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    Pack<float, W> v = x[at];
    v *= rate;
    out[at] = v;
}
"""
VECTORS_FIELDS = """template <typename P> __global__ void clip(P given) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < given.count; i += gridDim.x * blockDim.x)
        given.out[i] = fminf(static_cast<float>(given.x[i]), 6.f);
}
"""  # noqa: E501
VECTORS_GIVEN_GLUON = """import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def copy(x, out, n, T: gl.constexpr):
    place: gl.constexpr = gl.BlockedLayout([4], [32], [8], [0])
    at = gl.program_id(0) * T + gl.arange(0, T, layout=place)
    gl.store(out + at, gl.load(x + at, mask=at < n), mask=at < n)
"""
VECTORS_PROMISED = vary(
    ADD_POINTER,
    ("    inside = at < n\n", "    at = tl.max_contiguous(tl.multiple_of(at, T), T)\n    inside = at < n\n"),  # noqa: E501
)  # fmt: skip
PEERS_THREADS = """struct Peers { const void* at[8]; };
template <typename T, int N> struct Pack { T data[N]; };
template <typename T, int N> __device__ Pack<float, N> wide(Pack<T, N> v) {
    if constexpr (std::is_same<T, float>::value) { return v; } else {
        Pack<float, N> out;
        for (int k = 0; k < N; ++k) out.data[k] = static_cast<float>(v.data[k]);
        return out;
    }
}
template <typename T, int N> __device__ void add(Pack<T, N>& a, Pack<T, N> b) {
    for (int k = 0; k < N; ++k) a.data[k] += b.data[k];
}
template <typename T, int G>
__global__ void sums(Peers peers, float* out, int n) {
    using P = Pack<T, 16 / sizeof(T)>;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Pack<float, 16 / sizeof(T)> total = wide(((const P**)&peers.at[0])[0][i]);
#pragma unroll
        for (int g = 1; g < G; ++g) add(total, wide(((const P**)&peers.at[0])[g][i]));
        out[i] = total.data[0];
    }
}
"""

ADDED_WIDE = """#include <cuda_fp16.h>
__global__ void add(const half* a, const half* b, half* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = __half2float(a[i]) + __half2float(b[i]);
    out[i] = __float2half(x * 0.5f);
}
"""
"""Two short numbers meet in 32 bits, and are rounded once."""

ADDED_WIDE_PAIRS = """#include <cuda_fp16.h>
__global__ void add(const half* a, const half* b, half* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float2 x = reinterpret_cast<const float2*>(a)[i];
    float2 y = reinterpret_cast<const float2*>(b)[i];
    half2* left = reinterpret_cast<half2*>(&x);
    half2* right = reinterpret_cast<half2*>(&y);
    float2 first = __half22float2(left[0]);
    float2 second = __half22float2(right[0]);
    first.x += second.x;
    first.y += second.y;
    float2 made;
    half2* parts = reinterpret_cast<half2*>(&made);
    parts[0] = right[1];
    parts[1] = __float22half2_rn(first);
    reinterpret_cast<float2*>(out)[i] = made;
}
"""
"""The same for pairs that are packed in vectors of other numbers."""

WORD_OF_FLOATS = """__global__ void join(const float* x, __nv_bfloat16* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    union { __nv_bfloat162 pair; unsigned bits; } low, high;
    low.pair = __floats2bfloat162_rn(x[at], x[at + n]);
    high.pair = __floats2bfloat162_rn(x[at + 2 * n], x[at + 3 * n]);
    unsigned long long word = low.bits | (unsigned long long)high.bits << 32;
    *reinterpret_cast<unsigned long long*>(out + at * 4) = word;
}
"""
"""Four short floats are stored as one word."""
VECTORS_SEEN = """template <typename T_, int kEach_> struct Kinds {
    using element = T_;
    static constexpr int kEach = kEach_;
    using vector = typename Bytes<kEach * sizeof(T_)>::Type;
};
template <typename K> __global__ void twice(void* x, void* out) {
    constexpr int kEach = K::kEach;
    using element = typename K::element;
    using vector = typename K::vector;
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * kEach;
    element* from = reinterpret_cast<element*>(x) + at;
    element* to = reinterpret_cast<element*>(out) + at;
    element kept[kEach];
    reinterpret_cast<vector*>(kept)[0] = *reinterpret_cast<vector*>(from);
    for (int k = 0; k < kEach; ++k) kept[k] = kept[k] + kept[k];
    *reinterpret_cast<vector*>(to) = reinterpret_cast<vector*>(kept)[0];
}
template <typename T> void run(void* x, void* out, int n) {
    twice<Kinds<T, 4>><<<n, 128>>>(x, out);
}
"""
