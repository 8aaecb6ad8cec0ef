"""Constraints that need the kernel and its host code: shapes of two arrays, blocks for rows; and
what the host counts on when it takes a shape apart or divides by an extent."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.patterns.cases import POINTER, TILE, vary
from tests.extractors.rules.support import subject

ROWS = (
    POINTER
    + """
import torch
@triton.jit
def add(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, T)
    keep = tl.arange(0, T) < n
    v = tl.load(x + at, mask=keep, other=0.0) + tl.load(y + at, mask=keep, other=0.0)
    tl.store(out + at, v, mask=keep)

def run(x, y):
    m, n = x.shape
    out = torch.empty_like(x)
    add[(m,)](x, y, out, n, triton.next_power_of_2(n))
    return out
"""
)
FLAT = (
    POINTER
    + """
import torch
@triton.jit
def twice(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) * 2.0, mask=at < n)

def run(x):
    n = x.numel()
    out = torch.empty_like(x)
    twice[(triton.cdiv(n, 1024),)](x, out, n, 1024)
    return out
"""
)
SHARED = (
    POINTER
    + """
import torch
@triton.jit
def scale(x, s, out, n, group, T: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + head * n + at, mask=at < n, other=0.0) * tl.load(s + head // group)
    tl.store(out + head * n + at, v, mask=at < n)

def run(x, s):
    heads, n = x.shape
    out = torch.empty_like(x)
    scale[(heads,)](x, s, out, n, heads // s.shape[0], triton.next_power_of_2(n))
    return out
"""
)
TILES = (
    TILE
    + """
import torch
@ct.kernel
def add(x, y, out, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i, 0), shape=(1, T)) + ct.load(y, index=(i, 0), shape=(1, T))
    ct.store(out, index=(i, 0), tile=v)

def run(x, y):
    rows = x.numel() // x.shape[-1]
    out = torch.empty_like(x)
    ct.launch(None, (rows, 1, 1), add, (x, y, out, 64))
    return out
"""
)


def told(text: str) -> set[str]:
    """Constraints of the last kernel of a module, from the program and from the host."""
    one = subject(text)
    found = (*detect(one.facts.kernel, one.host).constraints, *one.host.constraints)
    return {constraint.expression for constraint in found}


@pytest.mark.parametrize(
    ("text", "expression", "holds"),
    [
        pytest.param(ROWS, "y.shape == x.shape", True, id="one array is asked for its extents"),
        pytest.param(FLAT, "x.numel <= 2147483647", True, id="elements are counted in 32 bits"),
        pytest.param(SHARED, "x.shape[0] % s.shape[0] == 0", True, id="heads share a scale"),
        pytest.param(
            vary(
                SHARED, ("    out = torch", "    assert heads % s.shape[0] == 0\n    out = torch")
            ),
            "x.shape[0] % s.shape[0] == 0",
            True,
            id="the host asks for it itself",
        ),
        pytest.param(
            vary(FLAT, ("    n = x.numel()\n", "    n = x.numel()\n    assert n < 2**31\n")),
            "x.numel <= 2147483647",
            False,
            id="the host looks at the range of 32 bits",
        ),
        pytest.param(
            vary(ROWS, ("    out = torch", "    assert y.shape == x.shape\n    out = torch")),
            "y.shape == x.shape",
            True,
            id="the host compares them itself",
        ),
        pytest.param(
            vary(ROWS, ("tl.load(y + at,", "tl.load(y + tl.arange(0, T),")),
            "y.shape == x.shape",
            False,
            id="one row for all",
        ),
        pytest.param(ROWS, "x.ndim == 2", True, id="the shape is taken apart"),
        pytest.param(
            vary(ROWS, ("m, n = x.shape", "m, n = x.shape[0], x.shape[-1]")),
            "x.ndim == 2",
            False,
            id="any number of axes",
        ),
        pytest.param(ROWS, "grid[0] == x.shape[0]", True, id="a block for each row"),
        pytest.param(
            vary(
                ROWS,
                ("    keep =", "    if tl.program_id(0) >= n:\n        return\n    keep ="),
            ),
            "grid[0] == x.shape[0]",
            False,
            id="the kernel asks for its row",
        ),
        pytest.param(
            vary(ROWS, ("tl.load(y + at,", "tl.load(y + tl.program_id(0) % n + tl.arange(0, T),")),
            "grid[0] == x.shape[0]",
            True,
            id="a remainder says where something else is read",
        ),
        pytest.param(
            vary(ROWS, ("    at = tl.program_id(0)", "    at = (tl.program_id(0) % n)")),
            "grid[0] == x.shape[0]",
            False,
            id="a remainder of the block says where is stored",
        ),
        pytest.param(
            vary(
                TILES,
                (
                    "    v = ct.load(x,",
                    "    s = ct.gather(x, (i, 0), check_bounds=False)\n    v = s + ct.load(x,",
                ),
            ),
            "grid[0] == x.shape[0]",
            False,
            id="rows that the host divides for",
        ),
        pytest.param(TILES, "x.shape[-1] > 0", True, id="the host divides by it"),
        pytest.param(TILES, "grid[0] == x.shape[0]", False, id="tiles end with the array"),
    ],
)
def test_what_both_sides_count_on(text: str, expression: str, holds: bool) -> None:
    assert (expression in told(text)) is holds
