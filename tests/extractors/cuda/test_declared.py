"""Where names of types, fields and the numbers in types are declared: lines of decisions."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from extractors.detect import detect
from kb.evidence import Decision

_FIELDS = """struct P {
    using offset = long long;
    offset stride;
    int size;
};
__global__ void k(const float* x, float* out, P p) {
    const float* from = x + blockIdx.x * p.stride;
    for (int i = threadIdx.x; i < p.size; i += blockDim.x)
        out[blockIdx.x * p.stride + i] = from[i] * 2.f;
}
"""
_GIVEN = """__global__ void k(
    const float* x,
    float* out,
    long long stride) {
    out[blockIdx.x * stride + threadIdx.x] = x[blockIdx.x * stride + threadIdx.x] * 2.f;
}
"""
_VECTORS = """template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T data[N]; };
__global__ void k(const float* x, float* out) {
    constexpr int W = 4;
    using Wide = Pack<float, W>;
    Wide own = reinterpret_cast<const Wide*>(x)[threadIdx.x];
    reinterpret_cast<Wide*>(out)[threadIdx.x] = own;
}
"""
_HELPED = """using word = float4;
using other = float4;
__device__ void twice(const float* x, float* out) {
    word v = *reinterpret_cast<const word*>(x);
    v.x = v.x + v.y;
    *reinterpret_cast<word*>(out) = v;
}
__global__ void k(const float* x, float* out) {
    twice(x + threadIdx.x * 4, out + threadIdx.x * 4);
}
"""
_KEPT = """__global__ void k(const float* x, float* out, int n) {
    float own[4];
    float other[4];
    float sum = 0.f;
    for (int i = 0; i < 4; ++i) {
        own[i] = x[blockIdx.x * 128 + i * 32 + threadIdx.x];
        sum += own[i];
    }
    for (int i = 0; i < 4; ++i) other[i] = own[i] / sum;
    for (int i = 0; i < 4; ++i) out[blockIdx.x * 128 + i * 32 + threadIdx.x] = other[i];
}
"""
_PRODUCT = """#include <cuda_fp16.h>
__device__ void multiply(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__global__ void k(const unsigned* x, const unsigned* y, __half* out, int n) {
    float acc[2][4];
    unsigned a[4], b[2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j) acc[i][j] = 0.f;
    for (int at = 0; at < n; ++at) {
        for (int j = 0; j < 4; ++j) a[j] = x[(at * 4 + j) * 32 + threadIdx.x];
        for (int j = 0; j < 2; ++j) b[j] = y[(at * 2 + j) * 32 + threadIdx.x];
        for (int i = 0; i < 2; ++i) multiply(acc[i], a, b);
    }
    for (int j = 0; j < 4; ++j) out[j * 32 + threadIdx.x] = __float2half(acc[0][j]);
}
"""
_PLAIN = """using number = float;
__global__ void k(const number* x, number* out) { out[threadIdx.x] = x[threadIdx.x] * 2.f; }
"""


def _decisions(text: str, axis: str) -> list[Decision]:
    (kernel,) = read_cuda(text, "k.cu").kernels
    return [d for d in detect(kernel).decisions if d.axis == axis]


@pytest.mark.parametrize(
    ("text", "axis", "lines"),
    [
        (_FIELDS, "index_width", {2, 3}),
        (_GIVEN, "index_width", {4}),
        (_VECTORS, "vector_width", {3, 4}),
        (_HELPED, "vector_width", {1}),
        (_KEPT, "row_residency", {2}),
        (_PRODUCT, "accum_dtype", {9}),
    ],
)
def test_declarations_belong_to_what_they_decide(text: str, axis: str, lines: set[int]) -> None:
    """The decision has the lines that say how wide a position, or a vector, is."""
    (found,) = _decisions(text, axis)
    assert lines <= {first for first, _ in found.lines}


def test_names_that_nothing_uses_are_left_out() -> None:
    """Another name for the type of a vector, a name for a number that moves alone, and arrays of
    other values."""
    (wide,) = _decisions(_HELPED, "vector_width")
    (plain,) = _decisions(_PLAIN, "vector_width")
    (kept,) = _decisions(_KEPT, "row_residency")
    (added,) = _decisions(_PRODUCT, "accum_dtype")
    assert 3 not in {first for first, _ in kept.lines}
    assert 10 not in {first for first, _ in added.lines}
    assert 2 not in {first for first, _ in wide.lines}
    assert 1 not in {first for first, _ in plain.lines}


def test_fields_of_another_file_are_lines_of_that_file() -> None:
    """What the struct of a header says leads there."""
    struct, kernel = _FIELDS.split("};\n")

    def load(path: str, name: str) -> tuple[str, str] | None:
        return ("p.h", f"{struct}}};\n") if name == "p.h" else None

    (found,) = read_cuda(f'#include "p.h"\n{kernel}', "k.cu", load).kernels
    (width,) = (d for d in detect(found).decisions if d.axis == "index_width")
    assert ("p.h", (3, 3)) in width.elsewhere
