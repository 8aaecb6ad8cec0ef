"""Offsets of threads that are computed in 32 bits."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.facts import Facts
from kb.analysis.widths import Widths, short_products

ROW = """__global__ void k(const float* x, float* out, int rows, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) { float v = 0.f; for (int j = 0; j < n; ++j) v += x[row * n + j]; out[row] = v; }
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("source", "short"),
    [
        pytest.param(ROW, True, id="a row for every thread"),
        pytest.param(ROW.replace("row * n", "(size_t)row * n"), False, id="widened before"),
        pytest.param(ROW.replace("row * n", "row * 64"), False, id="rows of a fixed size"),
    ],
)
def test_products_of_the_own_row_and_a_size(source: str, short: bool) -> None:
    (kernel,) = read_cuda(source, "k.cu").kernels
    facts = Facts(kernel)
    (load,) = [access for access in facts.loads if access.array == "x"]
    assert bool(list(short_products(facts, Widths(facts), load))) is short
