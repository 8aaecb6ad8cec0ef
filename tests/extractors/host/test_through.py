"""Arguments are told where they are written: in a dictionary, or where the kernel is handed on."""

from __future__ import annotations

import pytest

from extractors.host.samples import ROWS_POINTER, vary
from tests.extractors.host.test_cases import decided

DIRECT = "    kern[(x.shape[0],)](x, w, out, 1024, True, 1024, num_warps=4)\n"
SPREAD = """    given = {
        "T": 1024,
        "N": 1024,
    }
    kern[(x.shape[0],)](x, w, out, HAS=True, **given)
"""
HANDED = """    start(kern, (x.shape[0],), (x, w, out, 1024, True, 1024))

def start(kernel, grid, args):
    kernel[grid](*args, num_warps=4)
"""


@pytest.mark.parametrize(
    ("launch", "line"),
    [
        pytest.param(DIRECT, 0, id="in the launch"),
        pytest.param(SPREAD, 1, id="in a dictionary"),
        pytest.param(HANDED, 0, id="where the kernel is handed on"),
    ],
)
def test_where_a_size_is_written(launch: str, line: int) -> None:
    first = ROWS_POINTER[: ROWS_POINTER.index(DIRECT)].count("\n") + 1
    found = decided(vary(ROWS_POINTER, (DIRECT, launch)))
    (tile,) = [d for d in found if d.axis == "tile_selection" and d.subject == "T"]
    assert tile.lines == ((first + line, first + line),)
