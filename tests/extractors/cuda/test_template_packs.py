"""Packs of template arguments, templates that those tell apart, and defaults of declarations."""

from __future__ import annotations

import pytest

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound

_REDUCE = """enum class Op { Add, Max };
template <Op O, typename T> __device__ T joined(const T a, const T b);
template <> __device__ float joined<Op::Add>(const float a, const float b) { return a + b; }
template <> __device__ float joined<Op::Max>(const float a, const float b) { return fmaxf(a, b); }
template <Op O, typename T = float> __device__ T first();
template <> __device__ float first<Op::Add>() { return 0.f; }
template <> __device__ int first<Op::Add>() { return 0; }
template <> __device__ float first<Op::Max>() { return -INFINITY; }
template <Op O, typename T> __device__ void begin(T* data) { data[0] = first<O, T>(); }
template <Op O, Op P, typename T> __device__ void begin(T* data) {
    data[0] = first<O, T>();
    data[1] = first<P, T>();
}
template <typename T, Op O, int width = 32> __device__ void warp(T* data) {
    for (int i = 1; i < width; i *= 2)
        data[0] = joined<O>(data[0], __shfl_xor_sync(-1, data[0], i));
}
template <typename T, Op O, Op P, int width = 32> __device__ void warp(T* data) {
    for (int i = 1; i < width; i *= 2) {
        data[0] = joined<O>(data[0], __shfl_xor_sync(-1, data[0], i));
        data[1] = joined<P>(data[1], __shfl_xor_sync(-1, data[1], i));
    }
}
template <typename T, int warps, Op... Ops> __device__ void block(T* data) {
    constexpr int count = sizeof...(Ops);
    __shared__ T held[32 * count];
    warp<T, Ops...>(data);
    if (threadIdx.x % 32 == 0)
        for (int i = 0; i < count; i++) held[count * (threadIdx.x / 32) + i] = data[i];
    __syncthreads();
    if (threadIdx.x < warps)
        for (int i = 0; i < count; i++) data[i] = held[count * threadIdx.x + i];
    else begin<Ops...>(data);
    warp<T, Ops..., warps>(data);
}
"""
_ONE = "block<float, 8, Op::Max>(&v);"
_TWO = "float d[2] = {v, v}; block<float, 8, Op::Add, Op::Max>(d); v = d[0] - d[1];"


def _kernel(body: str) -> str:
    return (
        f"{_REDUCE}__global__ void k(float* x) {{\n"
        f"    float v = x[threadIdx.x];\n    {body}\n    x[threadIdx.x] = v;\n}}\n"
    )


@pytest.mark.parametrize(("body", "elements", "shuffles"), [(_ONE, 32, 2), (_TWO, 64, 4)])
def test_a_pack_is_each_of_its_arguments(body: str, elements: int, shuffles: int) -> None:
    kernel = sound(_kernel(body))
    assert not ops(kernel, OpKind.OPAQUE)
    (held,) = ops(kernel, OpKind.ALLOCATE)
    assert held.results[0].type is not None
    assert held.results[0].type.shape == (str(elements),)
    assert len(ops(kernel, OpKind.SHUFFLE)) == shuffles


def test_the_default_of_a_declaration_tells_specialisations_apart() -> None:
    kernel = sound(_kernel("v = first<Op::Add>();"))
    assert not ops(kernel, OpKind.OPAQUE)
    assert not ops(kernel, OpKind.CAST)
