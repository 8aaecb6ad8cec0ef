"""Where the part of a block begins: products that block ids alone say."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.block_starts import block_starts
from kb.analysis.facts import Facts

_KERNEL = """__global__ void k(const float* x, const int* list, float* out, int wide) {
    int begin = blockIdx.x * 96;
    int mine = threadIdx.x * 4;
    int listed = list[blockIdx.x] * 8;
    out[begin + mine + listed] = x[begin + mine + listed];
}
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [(_KERNEL, [2]), (_KERNEL.replace("blockIdx.x * 96", "threadIdx.x * 96"), [])],
)
def test_products_of_block_ids(text: str, lines: list[int]) -> None:
    """Not those of a thread's number, nor of a number that is loaded for a block."""
    (kernel,) = read_cuda(text, "k.cu").kernels
    assert [node.lines[0] for node in block_starts(Facts(kernel))] == lines
