"""Sizes that must be whole vectors."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.alignment import whole_vectors
from kb.analysis.facts import Facts

HEAD = "__global__ void k(const float* x, float4* out, int n, int m) {\n"


def sizes(body: str) -> set[tuple[str, int]]:
    (kernel,) = read_cuda(f"{HEAD}{body}}}\n", "k.cu").kernels
    return {(found.size, found.elements) for found in whole_vectors(Facts(kernel))}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "out[threadIdx.x] = reinterpret_cast<const float4*>(x + blockIdx.x * n)[threadIdx.x];",
            {("n", 4)},
            id="rows of a runtime size read four by four",
        ),
        pytest.param(
            "out[threadIdx.x] = reinterpret_cast<const float4*>(x)[blockIdx.x * n + threadIdx.x];",
            set(),
            id="the size counts vectors",
        ),
        pytest.param(
            "out[threadIdx.x] = reinterpret_cast<const float4*>(x + blockIdx.x * 8)[threadIdx.x];",
            set(),
            id="a number of whole vectors",
        ),
        pytest.param(
            "float v = x[blockIdx.x * n]; out[threadIdx.x] = make_float4(v, v, v, v);",
            set(),
            id="one element at a time",
        ),
    ],
)
def test_sizes_that_move_vectors(body: str, expected: set[tuple[str, int]]) -> None:
    assert sizes(body) == expected
