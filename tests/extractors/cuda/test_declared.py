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
    ],
)
def test_declarations_belong_to_what_they_decide(text: str, axis: str, lines: set[int]) -> None:
    """The decision has the lines that say how wide a position, or a vector, is."""
    (found,) = _decisions(text, axis)
    assert lines <= {first for first, _ in found.lines}


def test_names_that_nothing_uses_are_left_out() -> None:
    """Another name for the type of a vector, and a name for a number that moves alone."""
    (wide,) = _decisions(_HELPED, "vector_width")
    (plain,) = _decisions(_PLAIN, "vector_width")
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
