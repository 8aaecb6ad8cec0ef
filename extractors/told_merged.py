"""Decisions that are one, told by the program and by the host code around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.told_flags import FLAGGED
from extractors.told_strides import CONTIGUOUS
from kb.evidence import AxisKind, Decision

HINTED = frozenset({"occupancy", "num_ctas", "num_warps", "num_stages"})
"""Axes that a decorator and a launch may both set."""

EVERYWHERE = frozenset({"specialization", "launch_overlap"})
"""Axes whose value holds for the whole kernel, so that each value is told once."""

HELD = "number-held-to-the-range-of-a-narrow-type"
"""The pattern of what is no decision on rounding beside one that says how numbers are rounded."""


def merged_decisions(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Decisions without repeats, by kind, first line and axis.

    Numbers that are held to a range are told of where nothing else is told of their rounding.
    Program and host code may both tell of one decision: same axis, value, pattern and file, and no
    two different subjects, unless several flags decide the axis. Such become one with the lines of
    both.
    """
    kept: list[Decision] = []
    rounds = any(d.axis == "rounding_mode" and d.pattern != HELD for d in decisions)
    for decision in decisions:
        if rounds and decision.pattern == HELD:
            continue
        twin = next((i for i, other in enumerate(kept) if _same(other, decision)), None)
        if twin is None:
            kept.append(decision)
        else:
            kept[twin] = _joined(kept[twin], decision)
    kinds = list(AxisKind)
    return tuple(sorted(kept, key=lambda d: (kinds.index(d.kind), d.lines, d.axis, d.value)))


def _same(one: Decision, other: Decision) -> bool:
    if (one.axis, one.pattern, one.file) != (other.axis, other.pattern, other.file):
        return False
    if one.axis in EVERYWHERE:
        return True
    if one.value != other.value and not _fixed(one, other):
        return False
    if one.axis in FLAGGED:
        return True
    if one.subject == other.subject or one.pattern == CONTIGUOUS:
        return one.lines == other.lines or one.axis in HINTED
    return None in (one.subject, other.subject) and bool({*one.lines} & {*other.lines})


def _fixed(one: Decision, other: Decision) -> bool:
    """Whether two decisions on a hint give it one number, which the kernel or its host fixes."""
    numbers = {d.value.removeprefix("fixed ") for d in (one, other)}
    return one.axis in HINTED and len(numbers) == 1


def _joined(one: Decision, other: Decision) -> Decision:
    led = {*one.elsewhere, *other.elsewhere}
    subject = one.subject or (other.subject if other.value == one.value else None)
    lines = (*one.lines, *other.lines)
    return replace(one, lines=lines, subject=subject, elsewhere=tuple(sorted(led)))
