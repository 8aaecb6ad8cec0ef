"""Arrays that the host makes contiguous are constraints of the launch."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import vary
from extractors.rules.cases import AUTOTUNED, SEARCHED
from tests.extractors.rules.support import subject

MADE = "    x = x.contiguous()\n"
CALLER = """
class Passes(torch.autograd.Function):
    @staticmethod
    def backward(ctx, x):
        x = x.contiguous()
        return run(x)
"""
OTHER = """
class Others(torch.autograd.Function):
    @staticmethod
    def backward(ctx, x):
        return run(x)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(AUTOTUNED, {"x.stride[-1] == 1"}, id="made contiguous"),
        pytest.param(SEARCHED, {"x.stride[-1] == 1"}, id="of a known number of axes"),
        pytest.param(vary(AUTOTUNED, (MADE, "")), set(), id="as the caller gives it"),
        pytest.param(
            vary(AUTOTUNED, (MADE, "    x = x.contiguous().view(-1)\n")),
            {"x.stride[-1] == 1"},
            id="in another shape",
        ),
        pytest.param(
            vary(AUTOTUNED, (MADE, "")) + CALLER, {"x.stride[-1] == 1"}, id="by the caller"
        ),
        pytest.param(
            vary(AUTOTUNED, (MADE, "")) + CALLER + OTHER, set(), id="by one caller of two"
        ),
        pytest.param(
            vary(AUTOTUNED, (MADE, "    y = x.contiguous()\n"), ("move[", "x = x.t()\n    move[")),
            set(),
            id="turned afterwards",
        ),
    ],
)
def test_contiguous_arrays(text: str, said: set[str]) -> None:
    found = {c.expression: c for c in subject(text).host.constraints}
    assert {expression for expression in found if "stride" in expression} == said
    assert all(found[one].checked_by_host and found[one].lines for one in said)


@pytest.mark.parametrize(
    ("before", "after", "known"),
    [
        pytest.param("torch.empty_like(x)", "torch.empty_like(x)", True, id="like one made so"),
        pytest.param("torch.empty_like(x)", "x.new_empty(8, 4)", True, id="of extents"),
        pytest.param("torch.empty_like(x)", "torch.empty_like(x).view(-1)", True, id="reshaped"),
        pytest.param("torch.empty_like(x)", "torch.empty_like(x).t()", False, id="turned"),
        pytest.param("torch.empty_like(x)", "torch.empty_like(given)", False, id="like any"),
    ],
)
def test_arrays_that_the_host_makes(before: str, after: str, known: bool) -> None:
    host = subject(vary(AUTOTUNED, (before, after))).host
    assert "x.stride[-1] == 1" in host.arguments
    assert ("out.stride[-1] == 1" in host.arguments) is known
