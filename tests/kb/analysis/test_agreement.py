"""What arrays that are read together have in common, and loaded values that pick places."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import POINTER, TILE, vary
from kb.analysis.constraints import constraints_of
from tests.extractors.rules.support import subject

_ROWS = (
    POINTER
    + """
@triton.jit
def rows(x, y, w, out, sx, sy, n, W: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, W)
    a = tl.load(x + row * sx + at, mask=at < n, other=0.0)
    b = tl.load(y + row * sy + at, mask=at < n, other=0.0)
    g = tl.load(w + at, mask=at < n, other=0.0)
    tl.store(out + row * sx + at, (a + b) * g, mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def rows(x, y, w, out, W: Int):
    i, j = ct.bid(0), ct.bid(1)
    a = ct.load(x, index=(i, j), shape=(1, W)) + ct.load(y, index=(i, j), shape=(1, W))
    ct.store(out, index=(i, j), tile=a * ct.load(w, index=(j,), shape=(W,)))
"""
)
_PICKED = (
    POINTER
    + """
@triton.jit
def picked(x, labels, out, sx):
    row = tl.program_id(0).to(tl.int64)
    y = tl.load(labels + row)
    tl.store(out + row, tl.load(x + row * sx + y))
"""
)
_THREADS = """
__global__ void picked(const float* x, const int* labels, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = x[labels[i]]; }
}
"""
INSIDE = "labels.values >= 0 and labels.values < x.numel"


def told(text: str) -> set[str]:
    return {constraint.expression for constraint in constraints_of(subject(text).facts)}


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        pytest.param(_ROWS, "x.numel == y.numel", id="each with its stride"),
        pytest.param(_ROWS, "w.shape[-1] == x.shape[-1]", id="a vector up to the end of the rows"),
        pytest.param(_TILES, "x.shape == y.shape", id="tiles of one place"),
        pytest.param(_TILES, "w.shape[-1] == x.shape[-1]", id="tiles of the columns"),
        pytest.param(_PICKED, INSIDE, id="a label picks a logit"),
        pytest.param(_THREADS, INSIDE, id="a thread picks an element"),
    ],
)
def test_what_must_agree(text: str, expression: str) -> None:
    assert expression in told(text)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        pytest.param(
            vary(_ROWS, ("y + row * sy", "y + (row // 2) * sy")), "x.numel == y.numel",
            id="two rows share one of the other",
        ),
        pytest.param(
            vary(_ROWS, ("* g, mask", "* g * tl.load(x + row * sx + n + at, mask=at < n), mask")),
            "x.numel == y.numel", id="the rows of one hold more",
        ),
        pytest.param(
            vary(_ROWS, ("w + at, mask=at < n", "w + at, mask=at < 8")),
            "w.shape[-1] == x.shape[-1]", id="another end",
        ),
        pytest.param(
            vary(_PICKED, ("    tl.st", "    y = tl.where((y >= 0) & (y < sx), y, 0)\n    tl.st")),
            INSIDE, id="the kernel asks for the range",
        ),
        pytest.param(
            vary(_PICKED, ("row * sx + y", "(row + y) * sx")), INSIDE,
            id="the start of a sequence, to which a position is added",
        ),
    ],
)  # fmt: skip
def test_what_need_not(text: str, expression: str) -> None:
    assert expression not in told(text)
