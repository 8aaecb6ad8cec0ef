"""Arrays with one part for all blocks, or a part for each."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import POINTER, TILE, vary
from kb.analysis.constraints import constraints_of
from tests.extractors.rules.support import subject

_LANES = (
    POINTER
    + """
@triton.jit
def turned(x, table, tables, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    part, row = at // n, at % n
    table = table + tl.where(tables == 1, row * T, part * (n * T) + row * T)
    lanes = tl.arange(0, T)
    v = tl.load(x + at * T + lanes) * tl.load(table + lanes)
    tl.store(x + at * T + lanes, v)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def turned(x, table, T: Int):
    part = 0 if table.shape[0] == 1 else ct.bid(1)
    at = (ct.bid(1), ct.bid(0), 0)
    v = ct.load(x, index=at, shape=(1, 1, T))
    w = ct.load(table, index=(part, ct.bid(0), 0), shape=(1, 1, T))
    ct.store(x, index=at, tile=v * w)
"""
)


def told(text: str) -> set[str]:
    return {one.expression for one in constraints_of(subject(text).facts)}


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        pytest.param(_LANES, "tables == 1 or tables >= grid[0] // n", id="a part of the blocks"),
        pytest.param(_TILES, "table.shape[0] == 1 or table.shape[0] >= grid[1]", id="an axis"),
    ],
)
def test_one_or_all_is_told(text: str, expression: str) -> None:
    assert expression in told(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(vary(_LANES, ("tables == 1", "tables == 2")), id="another number"),
        pytest.param(
            vary(_LANES, ("part * (n * T) + row * T)", "row * T + 1)")), id="the same part for all"
        ),
        pytest.param(vary(_TILES, ("else ct.bid(1)", "else 1")), id="a part that is named"),
    ],
)
def test_another_choice_is_no_such_part(text: str) -> None:
    assert not any(" == 1 or " in one for one in told(text))
