"""What the shape of a block must keep to: threads that a kernel shares out to warps."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda

_TEXT = """
__global__ void k(float* x, int n) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row < n) x[row] = 0.0f;
}
void run(float* x, int n, int threads) { k<<<n, threads>>>(x, n); }
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("", "", True, id="threads of the block over those of a warp"),
        pytest.param("blockDim.x / 32", "blockDim.x / 8", False, id="another number"),
        pytest.param("(blockDim.x / 32)", "(n / 32)", False, id="not the threads of the block"),
        pytest.param("n, threads>>>", "n, 256>>>", False, id="the host gives a constant"),
    ],
)
def test_blocks_are_whole_warps(old: str, new: str, expected: bool) -> None:
    (found,) = host_facts(read_cuda(_TEXT.replace(old, new) if old else _TEXT, "k.cu")).values()
    told = [c.expression for c in found.constraints]
    assert ("threads % 32 == 0" in told) is expected
