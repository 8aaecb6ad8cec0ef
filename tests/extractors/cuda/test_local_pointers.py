"""Pointers that are moved over arrays in registers, and structs inside functions."""

from __future__ import annotations

import pytest

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound

_MOVED = """template <typename T> __device__ void fetch(void* to, const void* from) {
    uint4* data = reinterpret_cast<uint4*>(to);
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(data[0].x), "=r"(data[0].y), "=r"(data[0].z), "=r"(data[0].w) : "l"(from));
}
template <typename T, int N>
__global__ void k(const T* x, float* out) {
    constexpr int n = 16 / sizeof(T);
    T row[N * n];
    for (int i = 0; i < N; i++) {
        T* part = row + i * n;
        fetch<T>(part, x + (i * 32 + threadIdx.x) * n);
    }
    float sum = 0.f;
    for (int i = 0; i < N * n; i++) sum += float(row[i]);
    out[threadIdx.x] = sum;
}
"""
_UNION = """__global__ void k(const float4* x, float* out) {
    union { float4 whole; float part[4]; } v;
    struct Place { int at; float value; };
    v.whole = x[threadIdx.x];
    Place best = {0, v.part[0]};
    for (int i = 1; i < 4; i++)
        if (v.part[i] > best.value) { best.value = v.part[i]; best.at = i; }
    out[best.at] = best.value;
}
"""


@pytest.mark.parametrize("moved", ["row + i * n", "i * n + row"])
def test_a_loop_carries_what_a_moved_pointer_writes(moved: str) -> None:
    kernel = sound(_MOVED.replace("row + i * n", moved))
    assert not ops(kernel, OpKind.OPAQUE)
    first, _ = ops(kernel, OpKind.FOR)
    assert any(r.type is not None and r.type.shape for r in first.results)
    text = _MOVED.replace("        fetch<T>(part", "        fetch<T>(row")
    assert len(ops(sound(text), OpKind.FOR)[0].results) == 1


def test_loops_carry_what_is_moved_on_from_a_pointer_of_their_own() -> None:
    inner = "for (int j = 0; j < 2; j++) fetch<T>(part + j * 4, x + (i * 32 + threadIdx.x) * n);"
    text = _MOVED.replace("fetch<T>(part, x + (i * 32 + threadIdx.x) * n);", inner)
    outer = ops(sound(text), OpKind.FOR)[0]
    assert any(r.type is not None and r.type.shape for r in outer.results)


def test_what_is_loaded_lies_in_the_array() -> None:
    kernel = sound(_MOVED)
    (load,) = ops(kernel, OpKind.LOAD)
    (insert,) = ops(kernel, OpKind.INSERT)
    assert insert.operand("value") == load.result


def test_structs_without_a_name_and_in_functions_are_read() -> None:
    kernel = sound(_UNION)
    assert not ops(kernel, OpKind.OPAQUE)
    parts = [op for op in ops(kernel, OpKind.ATTRIBUTE) if op.attribute("name") == "part"]
    assert parts
    assert all(op.results[0].type is not None and op.results[0].type.shape == ("4",)
               for op in parts)  # fmt: skip


_TWICE = """#include <cuda_fp16.h>
__device__ float total(const __half2* data) {
    const __half* parts = reinterpret_cast<const __half*>(data);
    return __half2float(parts[3]);
}
template <int N> __global__ void k(const uint4* x, float* out) {
    __half2 held[N * 4];
    for (int i = 0; i < N; i++) {
        __half2* part = held + i * 2;
        *reinterpret_cast<uint4*>(part + i * 2) = x[i];
    }
    float sum = 0.f;
    for (int i = 0; i < N; i++) sum += total(held + i * 4);
    out[threadIdx.x] = sum;
}
"""


def test_a_pointer_is_moved_twice_and_seen_as_one_to_parts() -> None:
    kernel = sound(_TWICE)
    assert not ops(kernel, OpKind.OPAQUE)
    (load,) = ops(kernel, OpKind.LOAD)
    (insert,) = ops(kernel, OpKind.INSERT)
    assert insert.operand("value") == load.result
    (part,) = ops(kernel, OpKind.EXTRACT)
    assert part.results[0].type is not None
    assert part.results[0].type.dtype == "f16"
    assert not part.results[0].type.shape


_SIZED = """enum class Policy { All, Global };
template <int Bytes, Policy policy = Policy::All> __device__ void fetch(void* to, const void* from);
template <int Bytes, Policy policy = Policy::All>
__device__ void fetch(void* to, const void* from, bool wanted);
template <> __device__ void fetch<8>(void* to, const void* from) {
    *(uint2*)to = *(const uint2*)from;
}
template <> __device__ void fetch<4>(void* to, const void* from) {
    *(unsigned*)to = *(const unsigned*)from;
}
template <> __device__ void fetch<8, Policy::Global>(void* to, const void* from) {
    *(uint2*)to = __ldcg((const uint2*)from);
}
template <> __device__ void fetch<4>(void* to, const void* from, bool wanted) {
    if (wanted) *(unsigned*)to = *(const unsigned*)from;
}
template <int Bytes> __global__ void k(const float* x, float* out) {
    float held[Bytes / 4];
    fetch<Bytes>(held, x + threadIdx.x);
    out[threadIdx.x] = held[0];
}
"""


def test_specialisations_for_a_number_that_is_left_open_are_read_beside_each_other() -> None:
    kernel = sound(_SIZED)
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.LOAD)) == 2
    assert all(op.attribute("cache") is None for op in ops(kernel, OpKind.LOAD))


@pytest.mark.parametrize("sum_", ["first + i", "i + first"])
def test_a_sum_of_numbers_that_is_handed_on_is_not_written(sum_: str) -> None:
    text = f"""__global__ void k(float* x, int n) {{
    int const first = blockIdx.x * n;
    for (int i = 0; i < n; i++) unheard_of(x, {sum_});
    x[first] = 0.f;
}}"""
    (loop,) = ops(sound(text), OpKind.FOR)
    assert not loop.results


def test_the_address_behind_the_start_of_an_array_is_that_of_an_element() -> None:
    text = """__global__ void k(const float4* x, float* out) {
    float4 rows[2];
    for (int r = 0; r < 2; ++r) rows[r] = x[r * 32 + threadIdx.x];
    for (int i = 0; i < 4; ++i) out[i] = reinterpret_cast<float*>(&rows[1])[i];
}
"""
    moved = text.replace("&rows[1]", "&*(rows + 1)")
    assert ops(sound(text), OpKind.EXTRACT)
    assert not ops(sound(moved), OpKind.OPAQUE)
    assert len(ops(sound(moved), OpKind.EXTRACT)) == len(ops(sound(text), OpKind.EXTRACT))
