"""Targets that a host registers a function for, with what the kernel has for targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.host.backends import REGISTERED
from extractors.patterns.by_target_hints import ByTargetHints
from kb.evidence import Decision


def with_gates(
    program: Sequence[Decision], host: Sequence[Decision]
) -> tuple[list[Decision], list[Decision]]:
    """For which targets a function is registered belongs to hints that the kernel has by target."""
    gates = [d for d in host if d.value == REGISTERED]
    if not gates or not any(d.pattern == ByTargetHints.name for d in program):
        return [*program], [*host]
    lines = {line for d in gates for line in d.lines}
    told = [
        replace(d, lines=tuple(sorted({*d.lines, *lines})))
        if d.pattern == ByTargetHints.name
        else d
        for d in program
    ]
    return told, [d for d in host if d not in gates]
