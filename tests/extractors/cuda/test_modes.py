"""Ways of a kernel that numbers of the call choose at run time are shown with what is compiled
in."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from extractors.detect import detect

_KERNEL = """__global__ void k(const float* x, float* out, int n, int way) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float v = x[at];
    if (way == 0) {
        v = v * v;
    }
    if (way == 1) {
        v = v + v;
    }
    out[at] = v;
}
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (_KERNEL, {5, 8}),
        (_KERNEL.replace("way == 1", "way == 0"), set()),
        (_KERNEL.replace("way ==", "n =="), set()),
        (_KERNEL.replace("way ==", "(int)v =="), set()),
        ("template <int M> " + _KERNEL, set()),
    ],
)
def test_branches_by_a_number_of_the_call(text: str, lines: set[int]) -> None:
    """Several values of one number, which is no extent and not loaded; no template."""
    (kernel,) = read_cuda(text, "k.cu").kernels
    told = [d for d in detect(kernel).decisions if d.axis == "specialization"]
    assert {5, 8} & {first for d in told for first, _ in d.lines} == lines
