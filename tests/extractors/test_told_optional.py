"""Operands that may be missing, by a null pointer and by a template flag: one decision."""

from __future__ import annotations

from extractors.told_optional import FLAG, NULL, told_once
from kb.evidence import AxisKind, Decision, Lines


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
