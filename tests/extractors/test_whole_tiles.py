"""What a mask tells of the products of one loop holds for those of the loop over whole tiles."""

from __future__ import annotations

import pytest

from extractors.patterns.base import Pattern
from extractors.patterns.cases import POINTER
from extractors.patterns.scores_again import ScoresAgain
from extractors.patterns.transposed_score import TransposedScore
from tests.extractors.rules.support import subject

TEXT = (
    POINTER
    + """
@triton.jit
def back(q, k, v, g, dk, dv, n, D: tl.constexpr, T: tl.constexpr):
    own = tl.program_id(0) * T + tl.arange(0, T)
    lane = tl.arange(0, D)
    at = own[:, None] * D + lane[None, :]
    b, c = tl.load(k + at), tl.load(v + at)
    gk, gv = tl.zeros([T, D], tl.float32), tl.zeros([T, D], tl.float32)
    for i in range(tl.program_id(0) * T + T, n, T):
        there = (i + tl.arange(0, T))[None, :] * D + lane[:, None]
        a, d = tl.load(q + there), tl.load(g + there)
        s = tl.dot(b, a)
        ds = tl.dot(c, d)
        gv += tl.dot((s * s).to(d.dtype), tl.trans(d))
        gk += tl.dot((s * ds).to(a.dtype), tl.trans(a))
    there = own[None, :] * D + lane[:, None]
    a, d = tl.load(q + there), tl.load(g + there)
    inside = own[:, None] <= own[None, :]
    s = tl.where(inside, tl.dot(b, a), 0)
    ds = tl.where(inside, tl.dot(c, d), 0)
    gv += tl.dot((s * s).to(d.dtype), tl.trans(d))
    gk += tl.dot((s * ds).to(a.dtype), tl.trans(a))
    tl.store(dk + at, gk)
    tl.store(dv + at, gv)
"""
)
OTHER = TEXT.replace("        s = tl.dot(b, a)", "        s = tl.dot(b, tl.load(dk + there))")


def lines_of(pattern: Pattern, text: str) -> set[int]:
    found = pattern.find(subject(text).facts)
    return {i for d in found for a, b in d.lines for i in range(a, b + 1)}


@pytest.mark.parametrize("pattern", [TransposedScore(), ScoresAgain()])
@pytest.mark.parametrize("text", [TEXT, OTHER])
def test_products_of_whole_tiles(pattern: Pattern, text: str) -> None:
    lines = text.split("\n")
    whole = next(i for i, one in enumerate(lines, 1) if one.startswith("        s = "))
    masked = next(i for i, one in enumerate(lines, 1) if "tl.where(inside, tl.dot(b, a)" in one)
    told = lines_of(pattern, text)
    assert masked in told
    assert (whole in told) is (text is TEXT)
