"""What a launcher is when it is not told is told with the line that says so."""

from __future__ import annotations

import pytest

from tests.extractors.host.conftest import Read

_TEXT = """import triton
WIDTH = 64
@triton.jit
def k(x, n, BLOCK: "tl.constexpr"):
    pass
def run(x, block: int = WIDTH,
        warps: int = 4):
    k[(x.shape[0],)](x, x.shape[-1], BLOCK=block, num_warps=warps)
"""
_THROUGH = (
    _TEXT
    + """def outer(x, count: int = 8):
    run(x, warps=count)
"""
)


@pytest.mark.parametrize(
    ("text", "warps"),
    [
        pytest.param(_TEXT, {(7, 7), (8, 8)}, id="the function that launches"),
        pytest.param(_THROUGH, {(7, 7), (8, 8), (9, 9), (10, 10)}, id="a caller hands its own on"),
        pytest.param(_TEXT.replace("warps: int = 4", "*, warps"), {(8, 8)}, id="nothing is preset"),
        pytest.param(
            _TEXT.replace("    k[", "    warps = 2\n    k["), {(8, 8), (9, 9)}, id="set again"
        ),
    ],
)
def test_presets_of_the_functions_on_the_way(
    read: Read, text: str, warps: set[tuple[int, int]]
) -> None:
    told = {d.axis: d for d in read(text).decisions}
    assert {*told["num_warps"].lines} == warps
    assert (6, 6) in told["tile_selection"].lines
    assert told["autotuning"].value == "fixed"
