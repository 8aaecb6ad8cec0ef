"""Overloads that take arrays of different lengths, functions that convert or take pairs, types
that are named for a number of elements."""

from __future__ import annotations

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound

_OVERLOADS = """#include <cuda_fp16.h>
__device__ float joined(float2 (&a)[4]) { return a[0].x + a[3].y; }
__device__ float joined(float2 (&a)[8]) { return a[0].x - a[7].y; }
template <int W>
__global__ void sums(const __half2* x, float* out) {
    float2 a[8];
    for (int i = 0; i < 8; ++i) a[i] = __half22float2(x[threadIdx.x * 8 + i]);
    out[threadIdx.x] = joined(a);
}
"""
_KINDS = """template <int K, typename T>
__device__ float best(T (&out)[K], T value, int most = K) {
    for (int k = 0; k < most; ++k) out[k] = value + 1.f;
    return out[0];
}
template <int K, typename T, int N>
__device__ float best(T (&out)[K], T (&value)[N], int most = K) {
    for (int k = 0; k < most; ++k) out[k] = value[k % N] * 2.f;
    return out[0];
}
__global__ void top(const float* x, float* y) {
    float kept[3];
    float v = x[threadIdx.x];
    y[threadIdx.x] = best(kept, v);
}
"""
_PAIRS = """#include <cuda_fp16.h>
#include <cuda_fp8.h>
__global__ void pairs(const __half2* x, half* out, __nv_fp8x2_e4m3* low, unsigned char* scale) {
    __half2 v = x[threadIdx.x];
    out[threadIdx.x] = __hadd(__low2half(v), __high2half(v));
    low[threadIdx.x] = __nv_fp8x2_e4m3(__half22float2(v));
    scale[threadIdx.x] = __nv_cvt_float_to_e8m0(1.f, __NV_SATFINITE, cudaRoundPosInf);
}
"""

_NAMED = """template <typename T, int N> struct Packed { using type = T; };
template <> struct Packed<unsigned, 1> { using type = unsigned; };
template <> struct Packed<unsigned, 2> { using type = uint2; };
template <> struct Packed<unsigned, 4> { using type = uint4; };
template <int W>
__global__ void move(const short* x, short* out) {
    using V = typename Packed<unsigned, W>::type;
    V v = *reinterpret_cast<const V*>(&x[threadIdx.x * W * 2]);
    *reinterpret_cast<V*>(&out[threadIdx.x * W * 2]) = v;
}
"""
_POINTED = """#include <cuda_fp16.h>
namespace packed {
template <int N>
__device__ float added(const half* v, float most) { return __half2float(v[0]) - most; }
template <int N>
__device__ float added(const __half2* v, float most) { return __low2float(v[0]) + most; }
}
__global__ void sums(const __half2* x, float* out) {
    __half2 own[4];
    for (int i = 0; i < 4; ++i) own[i] = x[threadIdx.x * 4 + i];
    out[threadIdx.x] = packed::
        added<4>(own + 2, 1.f);
}
"""


def test_an_overload_is_the_one_for_so_many_elements() -> None:
    kernel = sound(_OVERLOADS)
    assert not ops(kernel, OpKind.OPAQUE)
    assert ops(kernel, OpKind.SUB)


def test_an_array_is_handed_on_as_what_points_to_its_elements() -> None:
    kernel = sound(_POINTED)
    assert not ops(kernel, OpKind.OPAQUE)
    assert not ops(kernel, OpKind.SUB)
    whole = sound(_POINTED.replace("own + 2", "own"))
    assert not ops(whole, OpKind.OPAQUE)
    assert not ops(whole, OpKind.SUB)


def test_a_number_is_no_array_and_a_default_names_what_the_arguments_tell() -> None:
    kernel = sound(_KINDS)
    assert not ops(kernel, OpKind.OPAQUE)
    assert not ops(kernel, OpKind.MUL)
    assert ops(kernel, OpKind.FOR)


def test_one_stands_for_all_that_do_the_same_where_nobody_says_how_many() -> None:
    open_ = _OVERLOADS.replace("float2 a[8]", "float2 a[W]")
    assert ops(sound(open_), OpKind.OPAQUE), "they do other things"
    alike = open_.replace("a[0].x - a[7].y", "a[0].x + a[7].y")
    assert not ops(sound(alike), OpKind.OPAQUE)


def test_elements_of_pairs_and_conversions_are_read() -> None:
    kernel = sound(_PAIRS)
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.EXTRACT)) == 2
    narrow = {op.results[0].type.dtype for op in ops(kernel, OpKind.CAST) if op.results[0].type}
    assert {"f8e4m3", "f8e8m0"} <= narrow


def test_a_type_named_for_a_number_of_elements_is_a_vector_of_so_many() -> None:
    (load,) = ops(sound(_NAMED), OpKind.LOAD)
    assert load.results[0].type is not None
    assert (load.results[0].type.dtype, load.results[0].type.shape) == ("u32", ("W",))
    other = _NAMED.replace("using type = uint4", "using type = uint2")
    (load,) = ops(sound(other), OpKind.LOAD)
    assert load.results[0].type is None
