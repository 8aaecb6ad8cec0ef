"""Grids that a kernel of threads counts on, and sizes that its host divides for it."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.detect import detect

_ROWS = """__global__ void k(const float* x, float* y, int n, int rows) {
  int row = blockIdx.x;
  GUARD
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[row * n + i] = x[row * n + i];
}
void host(Tensor a, float* y, int cols, int rows) {
  MADE
  k<<<GRID, 128>>>(a.data_ptr<float>(), y, WIDTH, rows);
}
"""


def _told(guard: str = "", grid: str = "rows", made: str = "", width: str = "cols") -> list[str]:
    text = _ROWS.replace("GUARD", guard).replace("MADE", made)
    found = read_cuda(text.replace("GRID", grid).replace("WIDTH", width), "k.cu")
    facts = host_facts(found)
    (kernel,) = found.kernels
    told = (*detect(kernel, facts[kernel.name]).constraints, *facts[kernel.name].constraints)
    return sorted(
        c.expression for c in told if c.expression.startswith("grid[") or "%" in c.expression
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, ["grid[0] == rows"], id="rows"),
        pytest.param({"grid": "blocks", "made": "dim3 blocks(rows);"}, ["grid[0] == rows"],
                     id="by a name"),
        pytest.param({"grid": "a.size(0)"}, ["grid[0] == x.shape[0]"], id="an extent"),
        pytest.param({"guard": "if (row >= rows) return;"}, [], id="asks for its row"),
        pytest.param({"grid": "(rows + 3) / 4"}, [], id="computed"),
        pytest.param({"grid": "blocks", "made": "int blocks = min(rows, 64);"}, [],
                     id="computed by a name"),
    ],
)  # fmt: skip
def test_a_block_for_each_row(given: dict[str, str], expected: list[str]) -> None:
    assert _told(**given) == expected


_PARTS = """__global__ void k(float* x, float* y, int n) {
  if (blockIdx.y == 0) { x[threadIdx.x] = n; } else { y[threadIdx.x] = COUNT; }
}
void host(float* x, float* y, int n) { k<<<dim3(n, 2), 128>>>(x, y, n); }
"""


@pytest.mark.parametrize(("count", "expected"), [("n", ["grid[1] == 2"]), ("gridDim.y", [])])
def test_blocks_told_apart_by_numbers(count: str, expected: list[str]) -> None:
    found = read_cuda(_PARTS.replace("COUNT", count), "k.cu")
    (kernel,) = found.kernels
    told = detect(kernel, host_facts(found)[kernel.name]).constraints
    assert [c.expression for c in told if c.expression.startswith("grid[1]")] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"grid": "rows / 8"}, ["rows % 8 == 0"], id="of the grid"),
        pytest.param({"width": "cols / 4"}, ["cols % 4 == 0"], id="of an argument"),
        pytest.param({"width": "w", "made": "int w = cols / (4 * rows);"},
                     ["cols % (4 * rows) == 0"],
                     id="by a product"),
        pytest.param({"width": "(cols + 3) / 4"}, [], id="rounded up"),
        pytest.param({"grid": "min(rows / 8, 64)"}, [], id="at most so many"),
    ],
)  # fmt: skip
def test_sizes_that_the_host_divides(given: dict[str, str], expected: list[str]) -> None:
    assert [one for one in _told(**given) if "%" in one] == expected
