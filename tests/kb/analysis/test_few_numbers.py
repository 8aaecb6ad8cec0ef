"""What a kernel asks of numbers that it is handed, of parts that blocks take, of tiles that an
array names, and of the types of a product."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import POINTER, TILE, vary
from kb.analysis.constraints import constraints_of
from tests.extractors.rules.support import subject

_FEW = (
    POINTER
    + """
@triton.jit
def mixed(x, w, s, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    a = tl.load(w)
    b = tl.load(w + 1)
    tl.store(out + at, (a * v + b * v * v) / tl.load(s), mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def scaled(x, w, out, T: Int):
    i = ct.bid(0)
    a = ct.load(w, index=(0,), shape=(1,))
    ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)) * a)
"""
)
_THREADS = """
__global__ void scaled(const float* x, const float* s, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = x[i]; }
  float by = s[2];
  if (i < n) { out[i] = by; }
}
"""
_PARTS = (
    POINTER
    + """
@triton.jit
def total(x, out, rows, part, T: tl.constexpr):
    first = tl.program_id(0) * part
    acc = tl.zeros((T,), dtype=tl.float32)
    for row in range(first, tl.minimum(first + part, rows)):
        acc += tl.load(x + row.to(tl.int64) * T + tl.arange(0, T))
    tl.store(out + tl.program_id(0) * T + tl.arange(0, T), acc)
"""
)
_PARTS_TILES = (
    TILE
    + """
@ct.kernel
def total(x, out, rows: int, part: int, T: Int):
    row = ct.bid(0) * part
    acc = ct.zeros((1, T), dtype=ct.float32)
    while row < (ct.bid(0) + 1) * part and row < rows:
        acc = acc + ct.load(x, index=(row, 0), shape=(1, T))
        row = row + 1
    ct.store(out, index=(ct.bid(0), 0), tile=acc)
"""
)
_NUMBERED = (
    POINTER
    + """
@triton.jit
def picked(x, at, out, T: tl.constexpr, LIST: tl.constexpr):
    i = tl.program_id(0)
    tile = i
    if LIST:
        tile = tl.load(at + i)
    lanes = tile * T + tl.arange(0, T)
    tl.store(out + i * T + tl.arange(0, T), tl.load(x + lanes))
"""
)
_PRODUCT = (
    POINTER
    + """
@triton.jit
def product(a, b, out, T: tl.constexpr):
    rows = tl.arange(0, T)
    at = rows[:, None] * T + rows[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))
"""
)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        pytest.param(_FEW, "w.numel >= 2", id="two numbers"),
        pytest.param(_FEW, "s.numel >= 1", id="one number"),
        pytest.param(_FEW, "s.values != 0", id="divided by"),
        pytest.param(_TILES, "w.numel >= 1", id="a tile of one number"),
        pytest.param(_THREADS, "s.numel >= 3", id="of threads"),
        pytest.param(
            vary(_THREADS, ("float by = s[2];", "float by = s == nullptr ? 1.0f : s[2];")),
            "s == none or s.numel >= 3",
            id="of threads, where it is there",
        ),
        pytest.param(
            vary(_THREADS, ("float by = s[2];", "float by = s ? s[2] : 1.0f;")),
            "s == none or s.numel >= 3",
            id="of threads, a pointer as a condition",
        ),
        pytest.param(
            vary(_THREADS, ("float by = s[2];", "float by = 1.0f; if (s != nullptr) by = s[2];")),
            "s == none or s.numel >= 3",
            id="of threads, in a branch where it is there",
        ),
        pytest.param(_PARTS, "grid[0] * part >= rows", id="a loop over a part"),
        pytest.param(_PARTS_TILES, "grid[0] * part >= rows", id="a loop with two ends"),
        pytest.param(_NUMBERED, "not LIST or at.tile == T", id="numbers of tiles"),
        pytest.param(_PRODUCT, "a.dtype == b.dtype", id="operands as loaded"),
    ],
)
def test_told(text: str, expression: str) -> None:
    assert expression in {one.expression for one in constraints_of(subject(text).facts)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(vary(_FEW, ("w + 1", "w + tl.program_id(0)")), "w.numel", id="any number"),
        pytest.param(
            vary(_FEW, ("/ tl.load(s)", "* tl.load(s)")), "s.values != 0", id="multiplied by"
        ),
        pytest.param(
            vary(_THREADS, ("float by = s[2];", "float by = 0.0f; if (n > 4) { by = s[2]; }")),
            "s.numel",
            id="read on a condition",
        ),
        pytest.param(
            vary(_THREADS, ("float by = s[2];", "float by = n > 4 ? s[2] : 0.0f;")),
            "s.numel",
            id="read on one side of a choice",
        ),
        pytest.param(
            vary(_PARTS, ("range(first, tl", "range(0, tl")), "grid[0] * part", id="from the first"
        ),
        pytest.param(
            vary(_PARTS_TILES, (" and row < rows", "")), "grid[0] * part", id="one end alone"
        ),
        pytest.param(
            vary(_NUMBERED, ("tile * T +", "tile * 8 +")), ".tile ==", id="another distance"
        ),
        pytest.param(
            vary(_PRODUCT, ("tl.load(b + at))", "tl.load(b + at).to(tl.float16))")),
            ".dtype ==",
            id="cast before",
        ),
        pytest.param(vary(_PRODUCT, ("b + at", "a + at")), ".dtype ==", id="one array"),
    ],
)
def test_not_told(text: str, said: str) -> None:
    assert not [c for c in constraints_of(subject(text).facts) if said in c.expression]
