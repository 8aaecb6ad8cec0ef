"""A reduction of a block that has one warp runs over that warp."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import vary
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.told_together import told_together
from tests.extractors.rules.support import subject

HEAD = SOFTMAX_POINTER.split("def ")[1].split(":\n")[0]
NAME, GIVEN = HEAD.split("(")[0], HEAD.split("(")[1].rstrip(")")
ARGUMENTS = ", ".join("x" if ":" not in one else "64" for one in GIVEN.split(","))
ONE = f"{SOFTMAX_POINTER}\ndef host(x):\n    {NAME}[(x.shape[0],)]({ARGUMENTS}, num_warps=1)\n"


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        pytest.param(ONE, "warp", id="one warp"),
        pytest.param(vary(ONE, ("num_warps=1", "num_warps=4")), "block", id="four warps"),
        pytest.param(vary(ONE, (", num_warps=1", "")), "block", id="as many as there are"),
    ],
)
def test_scope_of_a_reduction(text: str, scope: str) -> None:
    found = subject(text)
    rows = told_together(detect(found.facts.kernel, found.host), found.host)
    told = [d for d in rows if d.axis == "reduction_scope"]
    assert {d.value for d in told} == {scope}
    line = next(i for i, one in enumerate(text.split("\n"), 1) if f"{NAME}[" in one)
    assert any(a <= line <= b for d in told for a, b in d.lines) is (scope == "warp")
