"""Places in registers and in memory: moved pointers, references that functions return, arrays that
are parameters, device counts that a header sets."""

from __future__ import annotations

from extractors.cuda.launches import host_facts
from extractors.cuda.nodes import Place
from extractors.cuda.read import read_cuda
from extractors.cuda.writing import TypedWriter
from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, understood

_MOVED = """#include <cuda_fp16.h>
__device__ void halves(float* to, half const* from) {
    for (int i = 0; i < 8; i += 2)
        *reinterpret_cast<float2*>(to + i) =
            __half22float2(*reinterpret_cast<half2 const*>(from + i));
}
__global__ void k(uint4 const* x, float* out) {
    uint4 raw = x[threadIdx.x];
    float wide[8];
    halves(wide, reinterpret_cast<half const*>(&raw));
    out[threadIdx.x] = wide[0] + wide[7];
}
"""
_RETURNED = """struct State {
    int* counts;
    __device__ int& count() { return counts[threadIdx.x]; }
    __device__ void next() { count() = count() + 1; }
};
__global__ void k(int* counts) { State s{counts}; s.next(); }
"""
_BITS = """__global__ void k(float* out) {
    float v;
    reinterpret_cast<unsigned&>(v) = 0x3f800000u;
    out[threadIdx.x] = v;
}
"""
_ARRAY = """template <typename T> __device__ void fill(T* out, unsigned char held[]) {
    T* row = (T*)held;
    row[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = row[31 - threadIdx.x];
}
__global__ void k(float* out) {
    extern __shared__ unsigned char held[];
    fill<float>(out, held);
}
"""
_OPTIONAL = """__device__ float at(float const* x, std::optional<int> row, int i) {
    if (row.has_value()) return x[row.value() * 64 + i];
    return x[row.value_or(0) + i];
}
__global__ void k(float const* x, float* out, std::optional<int> row) {
    int i = threadIdx.x;
    out[i] = at(x, std::nullopt, i) + at(x, blockIdx.x, i) + at(x, row, i);
}
"""
_HEADER = """int count = 0;
void setup() { cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); count = p.multiProcessorCount; }
"""
_GRID = """#include "common.h"
__global__ void k(float* x) { x[blockIdx.x] = 0.f; }
void run(float* x) { const int grid = 2 * count; k<<<grid, 256>>>(x); }
"""


def test_a_pointer_to_registers_that_is_moved() -> None:
    kernel = understood(_MOVED)
    assert len(ops(kernel, OpKind.FLOOR_DIV)) == 2
    widths = {op.results[0].type.shape for op in ops(kernel, OpKind.CAST) if op.results[0].type}
    assert ("2",) in widths


def test_a_function_that_returns_a_reference_is_a_place() -> None:
    kernel = understood(_RETURNED)
    assert len(ops(kernel, OpKind.LOAD)) == len(ops(kernel, OpKind.STORE)) == 1


def test_bits_of_a_variable_are_set() -> None:
    assert ops(understood(_BITS), OpKind.BITCAST)


def test_an_array_that_is_a_parameter_is_a_pointer() -> None:
    kernel = understood(_ARRAY)
    assert [op.attribute("space") for op in ops(kernel, OpKind.STORE)] == ["shared", None]


def test_shared_memory_by_the_word_of_the_compiler() -> None:
    kernel = understood(_ARRAY.replace("__shared__", "__attribute__((shared))"))
    assert [op.attribute("space") for op in ops(kernel, OpKind.STORE)] == ["shared", None]


def test_a_value_that_may_be_missing() -> None:
    kernel = understood(_OPTIONAL)
    assert len(ops(kernel, OpKind.IF)) == 1
    assert len(ops(kernel, OpKind.LOAD)) == 4
    assert len(ops(kernel, OpKind.SELECT)) == 1


def test_a_count_that_a_header_asks_of_the_device() -> None:
    headers = {"common.h": ("common.h", _HEADER)}
    (found,) = host_facts(read_cuda(_GRID, "k.cu", lambda _, name: headers.get(name))).values()
    assert [d.axis for d in found.decisions if d.axis == "occupancy"] == ["occupancy"]
    other = _HEADER.replace("multiProcessorCount", "warpSize")
    headers["common.h"] = ("other.h", other)
    (found,) = host_facts(read_cuda(_GRID, "k.cu", lambda _, name: headers.get(name))).values()
    assert all(d.axis != "occupancy" for d in found.decisions)


def test_what_stands_nowhere_leads_nowhere() -> None:
    writer = TypedWriter("k.cu")
    writer.site.append(Place(5, 0, 5, "k.cu"))
    assert writer.place(Place(2, 0, 3, "near.cuh")).origin == ("near.cuh", (2, 3))
    assert writer.place(Place(0, 0, 0, "")).origin is None
