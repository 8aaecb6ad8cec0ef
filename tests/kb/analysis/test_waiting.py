"""What kernels take for granted that wait for blocks or kernels."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.facts import Facts
from kb.analysis.waiting import waiting

SPIN = """
__global__ void k(volatile int* flag, float* out, int n) {
  while (flag[blockIdx.x] < n) { }
  out[threadIdx.x] = n;
}
"""
AHEAD = """
__global__ void k(const int* lengths, const float* x, float* out) {
  int n = lengths[blockIdx.x];
  float w = x[threadIdx.x];
  cudaGridDependencySynchronize();
  out[threadIdx.x] = w * n;
}
"""
WAIT = "cudaGridDependencySynchronize();"
RESIDENT = "grid[0] * grid[1] * grid[2] <= resident_blocks"
BEFORE = "lengths.written_before_wait == 0 and x.written_before_wait == 0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(SPIN, {RESIDENT: (3, 3)}, id="blocks wait for a flag"),
        pytest.param(SPIN.replace("while (", "if ("), {}, id="blocks look once"),
        pytest.param(AHEAD, {BEFORE: (3, 3)}, id="read before the wait"),
        pytest.param(
            AHEAD.replace("  cudaGridDependencySynchronize();\n", ""),
            {},
            id="nothing is waited for",
        ),
        pytest.param(AHEAD.replace("  int n", f"  {WAIT}\n  int n"), {}, id="read behind the wait"),
    ],
)
def test_what_is_waited_for(text: str, expected: dict[str, tuple[int, int]]) -> None:
    (kernel,) = read_cuda(text, "k.cu").kernels
    assert {c.expression: c.lines for c in waiting(Facts(kernel))} == expected
