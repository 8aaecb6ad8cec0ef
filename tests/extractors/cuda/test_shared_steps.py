"""Functions of other files that are a part of a kernel, and those that are a shorthand."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from extractors.detect import detect
from kb.evidence import Lines

_LONG = """__device__ float squashed(float v) {
  float a = v * v;
  float b = a * v;
  float c = b + a;
  float d = c * 0.5f;
  float e = d - a;
  float f = e * v;
  return f + 1.f;
}
"""
_SHORT = "__device__ float squashed(float v) {\n  return v * v + 1.f;\n}\n"
_KERNEL = """#include "near.cuh"
__global__ void k(const float* x, float* out) {
  out[threadIdx.x] = squashed(x[threadIdx.x]);
}
"""


@pytest.mark.parametrize(
    ("header", "lines"),
    [
        pytest.param(_LONG, [((3, 3),)], id="many lines"),
        pytest.param(_SHORT, [], id="one line"),
    ],
)
def test_a_function_of_another_file(header: str, lines: list[tuple[Lines, ...]]) -> None:
    def load(path: str, name: str) -> tuple[str, str] | None:
        return ("near.cuh", header) if name == "near.cuh" else None

    (kernel,) = read_cuda(_KERNEL, "k.cu", load).kernels
    told = detect(kernel).decisions
    assert [d.lines for d in told if d.axis == "code_structure"] == lines
