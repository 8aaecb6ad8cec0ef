"""Whether an output is an array of its own is the host's to say."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import vary
from extractors.told_apart import OUT_OF_PLACE, kept_apart
from tests.extractors.rules.support import subject

_TWICE = """import torch
import triton
import triton.language as tl

@triton.jit
def twice(x, out, s, t, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * s + at, mask=at < n, other=0.0)
    tl.store(out + row * t + at, v * 2.0, mask=at < n)

def run(x):
    out = torch.empty_like(x)
    twice[(4,)](x, out, x.stride(0), out.stride(0), x.shape[1], T=16)
    return out
"""
_BACK = vary(
    _TWICE,
    ("x, out, s", "x, out, sums, s"),
    ("v * 2.0, mask=at < n)", "v * 2.0, mask=at < n)\n"
     "    tl.store(sums + row, tl.load(out + row * t))"),
    ("(x, out, x", "(x, out, torch.empty(4), x"),
)  # fmt: skip
_EITHER = vary(
    _TWICE,
    ("def run(x):\n    out = torch.empty_like(x)",
     "def run(x, over):\n    out = x if over else torch.empty_like(x)"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "told"),
    [
        pytest.param(_TWICE, [OUT_OF_PLACE], id="a tensor made for the output"),
        pytest.param(
            vary(_TWICE, ("torch.empty_like(x)", "x.view(-1, 16)")), [], id="a view of the input"
        ),
        pytest.param(
            vary(_TWICE, ("def run(x):\n    out = torch.empty_like(x)", "def run(x, out):")),
            [OUT_OF_PLACE],
            id="the caller gives another tensor",
        ),
        pytest.param(_BACK, [OUT_OF_PLACE], id="the output is read back"),
        pytest.param(_EITHER, [], id="the output may be the input"),
        pytest.param(
            vary(_BACK, ("tl.load(out + row * t)", "1.0"), ("(x, out, torch", "(x, x, torch")),
            [],
            id="one output of two is the input",
        ),
        pytest.param(
            vary(_TWICE, ("tl.store(out + row", "tl.store(x + row")), [], id="the input overwritten"
        ),
    ],
)
def test_out_of_place(source: str, told: list[str]) -> None:
    found = subject(source)
    detection = detect(found.facts.kernel, found.host)
    told_before = [*detection.decisions, *found.host.decisions]
    assert [d.value for d in kept_apart(detection, found.host, told_before)] == told


def test_out_of_place_stands_where_it_is_stored_and_made() -> None:
    found = subject(_TWICE)
    (decision,) = kept_apart(detect(found.facts.kernel, found.host), found.host, ())
    assert decision.lines == ((6, 6), (10, 10), (13, 13), (14, 14))


def test_an_output_that_is_only_laid_out_is_told_with_where_a_caller_made_it() -> None:
    text = vary(
        _TWICE,
        (
            "def run(x):\n    out = torch.empty_like(x)\n",
            "def run(x, y):\n    out = y.contiguous()\n",
        ),
    )
    found = subject(text + "\ndef outer(x):\n    y = torch.empty_like(x)\n    return run(x, y)\n")
    told = kept_apart(detect(found.facts.kernel), found.host, ())
    assert [(18, 18) in d.lines for d in told] == [True]


def test_an_output_that_is_handed_over_as_a_view_is_told_with_where_it_was_made() -> None:
    found = subject(vary(_TWICE, ("(x, out, x", "(x, out.view(-1), x")))
    told = kept_apart(detect(found.facts.kernel), found.host, ())
    made = next(n for n, line in enumerate(_TWICE.splitlines(), 1) if "empty_like" in line)
    assert [(made, made) in d.lines for d in told] == [True]
