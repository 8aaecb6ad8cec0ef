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
