"""What the promises of pointers ask of those who launch a kernel."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.facts import Facts
from kb.analysis.own_memory import own_memory

KERNEL = """
__global__ void scale(float* __restrict__ out,
                      const float* __restrict__ x, const float* __restrict__ w, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = x[i] * w[0]; }
}
"""
BOTH = "out.memory != x.memory and out.memory != w.memory"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(KERNEL, {BOTH: (2, 3)}, id="two inputs"),
        pytest.param(KERNEL.replace("* __restrict__", "*"), {}, id="no promise"),
        pytest.param(
            KERNEL.replace("const float* __restrict__ x", "const float* x").replace(
                "const float* __restrict__ w", "const float* w"
            ),
            {BOTH: (2, 3)},
            id="the output alone promises",
        ),
        pytest.param(KERNEL.replace("x[i] * w[0]", "2.0f"), {}, id="nothing else is touched"),
        pytest.param(KERNEL.replace("out[i] = x[i] * w[0]", "w[0] + x[i]"), {}, id="no store"),
    ],
)
def test_what_must_not_overlap(text: str, expected: dict[str, tuple[int, int]]) -> None:
    (kernel,) = read_cuda(text, "k.cu").kernels
    assert {c.expression: c.lines for c in own_memory(Facts(kernel))} == expected
