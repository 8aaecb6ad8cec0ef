"""Kernels that the host chooses: by a branch before a search, or from a table under several
keys."""

from __future__ import annotations

import pytest

from tests.extractors.host.conftest import Read
from tests.extractors.host.test_search import HEAD

ROWS = """
@ct.kernel
def k_rows(X, Out, n: int, T: C):
    ct.store(Out, (0,), ct.load(X, (0,), (T,)))
"""
SEARCHED = (
    HEAD
    + ROWS
    + """
def run(x, rows):
    n = x.shape[0]
    out = torch.empty_like(x)
    if rows:
        chosen = k_rows
    else:
        chosen = k
    if n not in cache:
        found = exhaustive_search(
            list(gen(n)), None, lambda cfg: (math.ceil(n / cfg.T), 1, 1), chosen,
            lambda cfg: (x, out, n, cfg.T), lambda cfg: {'occupancy': cfg.occupancy})
        cache[n] = found.best.config
    best = cache[n]
    ct.launch(None, (math.ceil(n / best.T), 1, 1), chosen, (x, out, n, best.T))
    return out
"""
)
TABLE = (
    HEAD
    + """
@ct.kernel
def k_walk(X, Out, n: int, rows: C, T: C):
    ct.store(Out, (0,), ct.load(X, (n,), (T,)))

KINDS = {("one", 0): k, ("walk", 0): k_walk}

def begin(grid, chosen, row):
    ct.launch(None, grid, chosen, row)

def run(x, cast):
    n = x.shape[0]
    out = torch.empty_like(x)
    kind = "walk" if n > 64 else "one"
    chosen = KINDS[(kind, cast)]
    if kind == "walk":
        wide = (4,)
        begin(wide, chosen, (x, out, n, 8, 128))
    else:
        begin((n,), chosen, (x, out, n, 64))
    return out
"""
)


TWICE = (
    SEARCHED.replace("rows):\n    n = ", "rows):\n    d = 0 if rows else 8\n    n = ")
    .replace("gen(n)", "few(d)")
    .replace(
        "\ndef run",
        """
def few(d):
    for t in (16, 32, 64):
        if d == 0 and t != 16:
            continue
        yield SimpleNamespace(T=t, occupancy=1)

def run""",
    )
)


def test_of_the_searches_of_several_branches_the_widest(read: Read) -> None:
    spaces = read(TWICE, "k").tuning.spaces
    assert {dict(point)["T"] for space in spaces for point in space.points} == {16, 32, 64}


@pytest.mark.parametrize("kernel", ["k", "k_rows"])
def test_a_search_is_of_every_kernel_that_it_may_time(read: Read, kernel: str) -> None:
    facts = read(SEARCHED, kernel)
    assert facts.tuning.mechanism == "exhaustive_search"
    assert set(facts.tuning.effective_axes) == {"T", "occupancy"}


@pytest.mark.parametrize(
    ("kernel", "grid", "tile", "written"),
    [
        pytest.param("k", "X.shape[0]", "64", "begin((n,)", id="the one with four parameters"),
        pytest.param("k_walk", "4", "128", "wide = (4,)", id="the one with five parameters"),
    ],
)
def test_a_table_under_two_keys(
    read: Read, kernel: str, grid: str, tile: str, written: str
) -> None:
    facts = read(TABLE, kernel)
    (launch,) = facts.launches
    assert launch.grid[0] == grid
    assert {b.parameter: b.expression for b in launch.bindings}["T"] == tile
    line = next(n for n, text in enumerate(TABLE.splitlines(), 1) if written in text)
    assert any(low <= line <= high for low, high in facts.grid_lines)
