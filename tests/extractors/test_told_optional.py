"""Operands that may be missing, by a null pointer and by a template flag: one decision."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.stand_ins import NEUTRAL
from extractors.told_optional import FLAG, NULL, told_once
from extractors.told_together import told_together
from kb.evidence import AxisKind, Decision, Lines
from tests.extractors.rules.support import subject


def _told(pattern: str, subject: str, *lines: Lines) -> Decision:
    return Decision(
        axis="optional_inputs", value="x", pattern=pattern, lines=lines, kind=AxisKind.HOST,
        subject=subject,
    )  # fmt: skip


ASKED, FLAGGED = _told(NULL, "bias", (3, 3)), _told(FLAG, "scale", (1, 1), (5, 5))


def test_both_ways_are_one_decision() -> None:
    (one,) = told_once([FLAGGED, ASKED], of_threads=True)
    assert one == _told(NULL, "bias, scale", (1, 1), (3, 3), (5, 5))


def test_one_way_stays_as_it_is() -> None:
    assert told_once([FLAGGED], of_threads=True) == [FLAGGED]


def test_tiles_tell_both() -> None:
    assert told_once([FLAGGED, ASKED], of_threads=False) == [FLAGGED, ASKED]


_BIASED = """import torch
import triton
import triton.language as tl

@triton.jit
def plus(x, bias, out, low, LOW: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at) + tl.load(bias + at)
    if LOW:
        v = tl.maximum(v, low)
    tl.store(out + at, v)

def run(x, bias, out, low):
    bias = torch.zeros(16) if bias is None else bias
    plus[(4,)](x, bias, out, 0.0 if low is None else float(low), low is not None, T=16)
"""


def _optional(source: str) -> dict[str | None, str]:
    found = subject(source)
    told = told_together(detect(found.facts.kernel, found.host), found.host)
    return {d.subject: d.value for d in told if d.axis == "optional_inputs"}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        pytest.param(
            _BIASED,
            {"bias": NEUTRAL, "low by LOW": "a number in its place + constexpr flag"},
            id="zeros, and a number",
        ),
        pytest.param(
            _BIASED.replace("zeros", "empty").replace("if LOW:", "if T > 16:"),
            {},
            id="an array without values that is read, a number that no branch asks for",
        ),
        pytest.param(
            _BIASED.replace("low is not None", "x.numel() == 16"),
            {"bias": NEUTRAL},
            id="the flag asks for something else",
        ),
    ],
)
def test_what_takes_the_place_of_a_missing_operand(
    source: str, told: dict[str | None, str]
) -> None:
    assert _optional(source) == told
