"""Flags, short axes of a grid, views, longest lengths, and checks in the words of the host."""

from __future__ import annotations

import pytest

from extractors.longest import longest
from extractors.patterns.cases import POINTER, TILE, vary
from tests.extractors.rules.support import subject

_FLAG = (
    TILE
    + """
@ct.kernel
def scale(x, n: int, T: Int, EVEN: Int):
    i = ct.bid(0)
    for at in range(ct.cdiv(n, T)):
        place = ct.arange(T, dtype=ct.int32) + at * T
        v = ct.gather(x, (i, place), check_bounds=not EVEN)
        ct.scatter(x, (i, place), v * 2.0, check_bounds=not EVEN)

def run(x):
    m, n = x.shape
    tile = min(1024, 1 << (n - 1).bit_length())
    even = n % tile == 0
    ct.launch(None, (m, 1, 1), scale, (x, n, tile, even))
"""
)
_HEADS = (
    POINTER
    + """
@triton.jit
def move(x, out, n, T: tl.constexpr):
    head = tl.program_id(1)
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + head * n + at, tl.load(x + head * n + at, mask=at < n), mask=at < n)

def run(x, out):
    b, h, n = x.shape
    move[(triton.cdiv(n, 64), b * h)](x, out, n, 64)
"""
)
_INNER = vary(
    _HEADS,
    (
        "    b, h, n = x.shape\n",
        "    n, m = x.shape[0], 1\n    for i in range(dim):\n        m *= x.shape[i]\n"
        "    h = x.numel() // m // n\n",
    ),
    ("def run(x, out)", "def run(x, out, dim)"),
    (", b * h)]", ", h)]"),
)
_SEEN = (
    POINTER
    + """
@triton.jit
def move(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)

def run(x, out):
    x = x.view(-1, x.shape[-1])
    move[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
"""
)
_PARTS = (
    POINTER
    + """
@triton.jit
def parts(x, starts, out, T: tl.constexpr):
    begin = tl.load(starts + tl.program_id(1)).to(tl.int32)
    n = tl.load(starts + tl.program_id(1) + 1).to(tl.int32) - begin
    if tl.program_id(0) * T >= n:
        return
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + begin + at, tl.load(x + begin + at, mask=at < n), mask=at < n)

def run(x, starts, out, longest):
    parts[(triton.cdiv(longest, 64), starts.shape[0] - 1)](x, starts, out, 64)
"""
)
_PAIR = (
    POINTER
    + """
@triton.jit
def move(x, out, n, step, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at * step, tl.load(x + at, mask=at < n), mask=at < n)

def pair(value):
    return value if isinstance(value, tuple) else tuple(int(one) for one in value.split(","))

def run(x, out, stride):
    high, wide = pair(stride)
    if high <= 0 or wide <= 0:
        raise ValueError(stride)
    move[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), high, 64)
"""
)


def told(text: str) -> dict[str, tuple[int, int] | None]:
    found = subject(text)
    return {
        one.expression: one.lines
        for one in (*found.host.constraints, *longest(found.facts, found.host))
    }


@pytest.mark.parametrize(
    ("text", "expression", "line"),
    [
        pytest.param(_FLAG, "not EVEN or n % T == 0", 17, id="a flag of the sizes"),
        pytest.param(_HEADS, "x.shape[0] * x.shape[1] <= 65535", 12, id="rows on a short axis"),
        pytest.param(
            vary(_INNER, ("x, out, n, 64)", "x, out, h, 64)")),
            "n <= 65535",
            14,
            id="what is left of all elements",
        ),
        pytest.param(_SEEN, "x.is_viewable", 10, id="a view of what the caller gives"),
        pytest.param(
            _PARTS, "longest >= starts.values[i + 1] - starts.values[i]", 14, id="the longest part"
        ),
        pytest.param(_PAIR, "high > 0", 14, id="in the words of the host"),
        pytest.param(_PAIR, "wide > 0", 14, id="each of several conditions"),
    ],
)
def test_what_is_told(text: str, expression: str, line: int) -> None:
    found = told(text)
    lines = found.get(expression)
    assert lines is not None, sorted(found)
    assert lines[0] == line


@pytest.mark.parametrize(
    ("text", "word"),
    [
        pytest.param(
            vary(_FLAG, ("even = n % tile == 0", "even = x.is_cuda")), "EVEN", id="no sizes"
        ),
        pytest.param(vary(_HEADS, ("b * h)", "4)")), "65535", id="a number of blocks"),
        pytest.param(
            vary(_HEADS, ("    b, h", "    assert x.shape[0] * x.shape[1] <= 65535\n    b, h")),
            "== 65535",
            id="checked already",
        ),
        pytest.param(vary(_SEEN, (".view(", ".reshape(")), "viewable", id="copied where needed"),
        pytest.param(vary(_SEEN, ("x.view", "x.contiguous().view")), "viewable", id="contiguous"),
        pytest.param(
            vary(_PARTS, ("cdiv(longest", "cdiv(x.shape[0]")), "longest", id="made of the array"
        ),
        pytest.param(
            vary(_PAIR, ("n, step, T", "high, step, T"), ("at < n", "at < high")),
            "high",
            id="a name that the kernel has for something else",
        ),
        pytest.param(vary(_PAIR, ("raise ValueError(stride)", "high = 1")), "high", id="no check"),
    ],
)
def test_what_is_not_told(text: str, word: str) -> None:
    assert not any(word in expression for expression in told(text))
