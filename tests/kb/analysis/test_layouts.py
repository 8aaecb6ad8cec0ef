"""How many warps the layouts of a kernel are made for."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import vary
from kb.analysis.constraints import constraints_of
from tests.extractors.rules.support import subject

_SUM = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def total(x, out, n, T: gl.constexpr, W: gl.constexpr):
    WARPS: gl.constexpr = 4
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [WARPS], [0])
    at = gl.arange(0, T, layout=layout)
    v = gl.load(x + at, mask=at < n, other=0.0)
    gl.store(out, gl.sum(v, axis=0))
"""


def told(text: str) -> set[str]:
    return {one.expression for one in constraints_of(subject(text).facts)}


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        pytest.param(_SUM, "num_warps == 4", id="a number"),
        pytest.param(vary(_SUM, ("[WARPS]", "[W]")), "num_warps == W", id="a parameter"),
        pytest.param(
            vary(_SUM, ("[4], [32], [WARPS], [0]", "[1, 4], [1, 32], [WARPS, 2], [1, 0]")),
            "num_warps == 8",
            id="two axes",
        ),
    ],
)
def test_warps_of_a_layout_are_told(text: str, expression: str) -> None:
    assert expression in told(text)


def test_a_layout_that_is_handed_over_says_no_number() -> None:
    handed = vary(_SUM, ("W: gl.constexpr", "layout: gl.constexpr"))
    line = "    layout: gl.constexpr = gl.BlockedLayout([4], [32], [WARPS], [0])\n"
    assert not any(one.startswith("num_warps") for one in told(vary(handed, (line, ""))))
