"""Quotients without a rest, sizes passed beside their array, and assertions, as constraints."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import POINTER, TILE
from kb.analysis.constraints import constraints_of
from tests.extractors.rules.support import subject

_PACKED = (
    POINTER
    + """
@triton.jit
def packed(x, out, n, k, T: tl.constexpr, P: tl.constexpr):
    tl.static_assert(T % P == 0 and T >= 32)
    at = tl.arange(0, T // 8)
    acc = tl.zeros((T // 8,), dtype=tl.float32)
    for i in range(0, k // P):
        acc += tl.load(x + i * (T // 8) + at)
    tl.store(out + at, acc, mask=at < n)
"""
)
_TILED = (
    TILE
    + """
@ct.kernel
def scaled(x, out, m, n, TM: Int, TN: Int):
    tiles = ct.cdiv(m, TM) * ct.cdiv(n, TN)
    for tile in range(ct.bid(0), tiles, ct.num_blocks(0)):
        i = tile // ct.cdiv(n, TN)
        for j in range(ct.cdiv(n, TN)):
            ct.store(out, index=(i, j), tile=ct.load(x, index=(i, j), shape=(TM, TN)))
"""
)
_HEADS = (
    POINTER
    + """
@triton.jit
def heads(q, k, out, t, HQ: tl.constexpr, H: tl.constexpr, n, D: tl.constexpr):
    head = tl.program_id(0) % HQ
    at = tl.arange(0, D)
    s = tl.load(q + head * D + at) * tl.load(k + head // (HQ // H) * D + at) / t
    tl.store(out + head * D + at, s)
    tl.store(out + head, tl.sum(s, axis=0) / n)
"""
)


def _told(text: str) -> dict[str, tuple[int, int] | None]:
    return {c.expression: c.lines for c in constraints_of(subject(text).facts)}


@pytest.mark.parametrize(
    ("text", "expression", "line"),
    [
        pytest.param(_PACKED, "T % P == 0", 6, id="asserted"),
        pytest.param(_PACKED, "T >= 32", 6, id="asserted together with it"),
        pytest.param(_PACKED, "T % 8 == 0", 7, id="extent of a tile"),
        pytest.param(_PACKED, "k % P == 0", 9, id="rounds of a loop"),
        pytest.param(_TILED, "n == x.shape[1]", 8, id="size beside its array"),
        pytest.param(_HEADS, "HQ % H == 0", 8, id="heads that share one"),
        pytest.param(_HEADS, "t != 0", 8, id="elements divided by a number"),
    ],
)
def test_what_is_relied_on(text: str, expression: str, line: int) -> None:
    found = _told(text)
    assert expression in found, sorted(found)
    lines = found[expression]
    assert lines is not None
    assert lines[0] == line


@pytest.mark.parametrize(
    ("text", "old", "new", "expression"),
    [
        pytest.param(_PACKED, "k // P", "tl.cdiv(k, P)", "k % P == 0", id="rounded up"),
        pytest.param(_HEADS, "(HQ // H)", "H", "HQ % H == 0", id="a number of its own"),
        pytest.param(_HEADS, " / t", " / (t + 1.0)", "t != 0", id="more than the number"),
        pytest.param(_HEADS, " / t", " / n", "t != 0", id="not divided by it"),
        pytest.param(
            _HEADS, " / t\n", "\n    s = tl.sum(s, axis=0) / t\n", "t != 0", id="divides a sum"
        ),
        pytest.param(
            _HEADS, " / t\n", "\n    if n > 0:\n        s = s / t\n", "t != 0", id="on one path"
        ),
        pytest.param(
            _PACKED,
            "    tl.store(",
            "    for i in range(k // P, k):\n        acc += i\n    tl.store(",
            "k % P == 0",
            id="another loop takes the rest",
        ),
        pytest.param(
            _PACKED, "tl.store(", "n = n - k % P\n    tl.store(", "k % P == 0", id="rest is known"
        ),
        pytest.param(_TILED, "n, TN", "x.shape[1], TN", "n == x.shape[1]", id="its own"),
    ],
)
def test_what_is_not(text: str, old: str, new: str, expression: str) -> None:
    assert old in text
    assert expression in _told(text)
    assert expression not in _told(text.replace(old, new))
