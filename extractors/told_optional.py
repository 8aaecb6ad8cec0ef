"""Operands of threads that may be missing: by a null pointer and by a template flag, told once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kb.evidence import Decision

NULL, FLAG = "null-pointer-for-an-absent-input", "operand-read-under-a-compile-time-flag"
"""The patterns of operands that are asked for when the kernel runs, and when it is compiled."""


def told_once(decisions: Sequence[Decision], of_threads: bool) -> list[Decision]:
    """The decisions, with operands under flags among those that are asked for."""
    flags = [d for d in decisions if of_threads and d.pattern == FLAG]
    asked = [d for d in decisions if d.pattern == NULL and d.file is None]
    same = [d for d in flags if d.file is None]
    if not asked or not same:
        return [*decisions]
    lines = {line for d in (*asked, *same) for line in d.lines}
    names = {n for d in (*asked, *same) if d.subject for n in d.subject.split(", ")}
    whole = replace(asked[0], lines=tuple(sorted(lines)), subject=", ".join(sorted(names)) or None)
    return [whole if d is asked[0] else d for d in decisions if d not in same]
