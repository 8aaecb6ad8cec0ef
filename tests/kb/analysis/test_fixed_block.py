"""Threads of a block that a kernel has written into its loops."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.facts import Facts
from kb.analysis.fixed_block import fixed_block

KERNEL = """
template <int T>
__global__ void k(const float* x, float* out, int n) {
  for (int i = threadIdx.x; i < n; i += 256) out[i] = 2.0f * x[i];
  MORE
}
"""


def told(text: str) -> list[str]:
    (kernel,) = read_cuda(text, "k.cu").kernels
    return [c.expression for c in fixed_block(Facts(kernel))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(KERNEL, ["block_x == 256"], id="a number"),
        pytest.param(KERNEL.replace("+= 256", "+= T"), ["block_x == T"], id="of the template"),
        pytest.param(
            KERNEL.replace("= threadIdx.x;", "= threadIdx.x * 4;").replace("256", "1024"),
            ["block_x == 256"],
            id="four elements a thread",
        ),
        pytest.param(KERNEL.replace("+= 256", "+= blockDim.x"), [], id="as many as there are"),
        pytest.param(KERNEL.replace("+= 256", "+= n"), [], id="a number that is passed"),
        pytest.param(KERNEL.replace("+= 256", "+= 8"), [], id="a part of a warp"),
        pytest.param(KERNEL.replace("= threadIdx.x;", "= threadIdx.x % 32;"), [], id="lanes"),
        pytest.param(KERNEL.replace("= threadIdx.x;", "= threadIdx.y;"), [], id="another axis"),
        pytest.param(
            KERNEL.replace("MORE", "for (int i = threadIdx.x; i < n; i += 128) out[i] += 1.0f;"),
            [],
            id="two loops that say different numbers",
        ),
        pytest.param(
            KERNEL.replace("MORE", "if (blockDim.x > 64) out[0] = 1.0f;"), [], id="the kernel asks"
        ),
    ],
)
def test_threads_that_loops_go_on_by(text: str, expected: list[str]) -> None:
    assert told(text) == expected
