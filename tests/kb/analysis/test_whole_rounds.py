"""Sizes that threads go over in rounds of several elements without asking."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.assumptions import whole_rounds
from kb.analysis.facts import Facts

SUMS = """template <int T> __global__ void k(const float* x, float* out, int n) {
    float v = 0.f;
    for (int i = 0; i < n; i += T) v += x[blockIdx.x * n + i + threadIdx.x % T];
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(SUMS, {("n", "T")}, id="steps of a compile-time size"),
        pytest.param(SUMS.replace("i += T", "i += 16"), {("n", "16")}, id="steps of a number"),
        pytest.param(
            SUMS.replace(" v += x", " if (i + threadIdx.x % T < n) v += x"),
            set(),
            id="every place is compared",
        ),
        pytest.param(SUMS.replace("i += T", "i += 1"), set(), id="one by one"),
        pytest.param(
            SUMS.replace("i = 0", "i = threadIdx.x").replace(" + threadIdx.x % T", ""),
            set(),
            id="every thread ends by itself",
        ),
        pytest.param(SUMS.replace(" + threadIdx.x % T", ""), set(), id="all threads take one"),
        pytest.param(SUMS.replace("+ i +", "+ i * 8 +"), set(), id="rounds lie apart"),
    ],
)
def test_sizes_of_whole_rounds(source: str, expected: set[tuple[str, str]]) -> None:
    (kernel,) = read_cuda(source, "k.cu").kernels
    assert {(size, step) for _, size, step in whole_rounds(Facts(kernel))} == expected
