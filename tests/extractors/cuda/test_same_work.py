"""One overload stands for all that do the same work, where the instantiation tells the type."""

from __future__ import annotations

import pytest

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound, understood

_WIDEN = """#include <cuda_fp16.h>
__device__ float wide(float v) { return v; }
__device__ float wide(half v) { return __half2float(v); }
__device__ void put(float* to, float v) { *to = v; }
__device__ void put(half* to, float v) { *to = __float2half(v); }
template <typename T> __device__ T top(T a, T b) { return a > b ? a : b; }
template <> __device__ half2 top(half2 a, half2 b) { return __hmax2(a, b); }
template <> __device__ float2 top(float2 a, float2 b) {
    return make_float2(fmaxf(a.x, b.x), fmaxf(a.y, b.y));
}
template <typename T>
__global__ void k(const T* x, T* out) {
    int i = threadIdx.x;
    put(out + i, wide(top(x[i], x[i + 1])) * 2.f);
}
"""
_LARGER = """#include <cuda_fp16.h>
__device__ half top(half a, half b) { return __hmax(a, b); }
__device__ float top(float a, float b) { return a > b ? a : b; }
template <typename T>
__global__ void k(const T* x, T* out) {
    out[threadIdx.x] = top(x[threadIdx.x], x[threadIdx.x + 1]);
}
"""
_PACKED = """#include <cuda_fp16.h>
template <typename To, typename From> __device__ To turned(From v) { return v; }
template <> __device__ half2 turned<half2, float>(float v) { return __float2half2_rn(v); }
template <> __device__ float2 turned<float2, half2>(half2 v) { return __half22float2(v); }
template <typename T, int n> struct packed;
template <typename T> struct packed<T, 1> { using type = T; };
template <> struct packed<half, 2> { using type = half2; };
template <> struct packed<float, 2> { using type = float2; };
template <typename T> struct Most;
template <> struct Most<half> { static constexpr float VALUE = 65504.f; };
template <> struct Most<float> { static constexpr float VALUE = 3e38f; };
template <typename T>
__global__ void k(const T* x, T* out) {
    using T2 = typename packed<T, 2>::type;
    T2 v = reinterpret_cast<const T2*>(x)[threadIdx.x];
    float2 w = turned<float2>(v);
    out[threadIdx.x] = T(w.x / Most<T>::VALUE + w.y);
}
"""


def test_overloads_for_an_open_type_are_read() -> None:
    kernel = sound(_WIDEN)
    assert not ops(kernel, OpKind.OPAQUE)
    (cast,) = [op for op in ops(kernel, OpKind.CAST) if op.results[0].type.dtype == "f32"]  # type: ignore[union-attr]
    assert cast.results[0].type is not None
    (store,) = ops(kernel, OpKind.STORE)
    assert store.operand("value")


@pytest.mark.parametrize("larger", ["a > b ? a : b", "b < a ? a : b", "!(a > b) ? b : a"])
def test_the_larger_one_chosen_in_other_ways(larger: str) -> None:
    assert not ops(sound(_LARGER.replace("a > b ? a : b", larger)), OpKind.OPAQUE)


def test_the_smaller_one_is_other_work() -> None:
    (left,) = ops(sound(_LARGER.replace("a > b ? a : b", "a > b ? b : a")), OpKind.OPAQUE)
    assert left.attribute("what") == "top"


def test_overloads_that_do_other_work_stay_unread() -> None:
    text = _WIDEN.replace("*to = __float2half(v);", "atomicAdd(to, __float2half(v));")
    assert [op.attribute("what") for op in ops(sound(text), OpKind.OPAQUE)] == ["put"]


def test_as_many_elements_of_an_open_type_as_every_specialisation_packs() -> None:
    kernel = sound(_PACKED)
    assert not ops(kernel, OpKind.OPAQUE)
    (load,) = ops(kernel, OpKind.LOAD)
    assert load.results[0].type is not None
    assert load.results[0].type.shape == ("2",)
    (member,) = [op for op in ops(kernel, OpKind.ATTRIBUTE) if op.attribute("name") == "VALUE"]
    assert member.results[0].type is not None
    assert member.results[0].type.dtype == "f32"


def test_specialisations_that_pack_different_numbers_tell_none() -> None:
    text = _PACKED.replace("struct packed<float, 2> { using type = float2",
                           "struct packed<float, 2> { using type = float4")  # fmt: skip
    (load,) = ops(sound(text), OpKind.LOAD)
    assert load.results[0].type is None or load.results[0].type.shape != ("2",)


_SHUFFLED = """template <typename T> __device__ T passed(const T& x, unsigned by) {
    return __shfl_xor_sync(0xffffffffu, x, by);
}
template <> __device__ float2 passed<float2>(const float2& x, unsigned by) {
    return {passed(x.x, by), passed(x.y, by)};
}
template <typename T>
__global__ void k(const T* x, T* out) {
    T v = x[threadIdx.x];
    for (int by = 1; by < 32; by *= 2) v = v + passed(v, by);
    out[threadIdx.x] = v;
}
"""
_ADDED = """#include <cuda_fp16.h>
__device__ void plus(half* at, half v) {
    size_t place = reinterpret_cast<size_t>(at);
    half2* pair = reinterpret_cast<half2*>(place & ~size_t(3));
    atomicAdd(pair, (place & 3) ? __halves2half2(__ushort_as_half(0), v)
                                : __halves2half2(v, __ushort_as_half(0)));
}
__device__ void plus(float* at, float v) { atomicAdd(at, v); }
template <typename T>
__global__ void k(const T* x, T* out) { plus(out, x[threadIdx.x]); }
"""


def test_a_whole_number_stands_for_another_beside_an_open_type() -> None:
    kernel = sound(_SHUFFLED)
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.SHUFFLE)) == 1


def test_an_atomic_on_half_a_word_is_the_atomic_on_the_element() -> None:
    kernel = sound(_ADDED)
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.ATOMIC_ADD)) == 1


_BOTH = """__device__ float& at(float4& v, int i) { return reinterpret_cast<float*>(&v)[i]; }
__device__ float at(const float4& v, int i) { return reinterpret_cast<const float*>(&v)[i]; }
__global__ void k(const float4* x, float4* out) {
    float4 v = x[threadIdx.x];
    float top = fmaxf(at(v, 0), at(v, 1));
    at(v, 2) = top;
    out[threadIdx.x] = v;
}
"""


def test_overloads_that_differ_in_const_alone() -> None:
    kernel = sound(_BOTH)
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.MAXIMUM)) == 1
    assert ops(kernel, OpKind.INSERT)


_GATHERED = """template <typename T, int N> __device__ void gather(float (&o)[N], uint4 v) {
    static_assert(sizeof(T) == 0, "no such type");
}
template <> __device__ void gather<__half, 8>(float (&o)[8], uint4 v) {
    for (int i = 0; i < 4; ++i) {
        float2 a = __half22float2(reinterpret_cast<__half2*>(&v)[i]);
        o[2 * i] += a.x;
        o[2 * i + 1] += a.y;
    }
}
template <> __device__ void gather<__nv_bfloat16, 8>(float (&o)[8], uint4 v) {
    for (int i = 0; i < 4; ++i) {
        float2 a = __bfloat1622float2(reinterpret_cast<__nv_bfloat162*>(&v)[i]);
        o[2 * i] += a.x;
        o[2 * i + 1] += a.y;
    }
}
template <typename T> __global__ void k(const uint4* x, float* out) {
    float o[8] = {0.f};
    gather<T>(o, x[threadIdx.x]);
    out[threadIdx.x] = o[0] + o[7];
}
"""


def test_of_a_function_that_only_asserts_the_specialisations_are_meant() -> None:
    kernel = understood(_GATHERED)
    assert len(ops(kernel, OpKind.ADD)) > 3
    other = _GATHERED.replace("o[2 * i] += a.x", "o[2 * i] -= a.x", 1)
    assert [op.attribute("what") for op in ops(sound(other), OpKind.OPAQUE)] == ["gather"]
