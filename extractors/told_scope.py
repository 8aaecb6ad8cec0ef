"""Reductions of a block that the host gives a single warp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kb.evidence import Decision

SCOPE = "reduction_scope"
_ONE = frozenset({"1", "fixed 1"})


def of_one_warp(program: Sequence[Decision], host: Sequence[Decision]) -> Iterator[Decision]:
    """Decisions of the program; where every launch gives one warp, what runs over a block runs over
    that warp, and the launches belong to it."""
    warps = [d for d in host if d.axis == "num_warps"]
    alone = bool(warps) and all(d.value in _ONE for d in warps)
    lines = {line for d in warps if d.file is None for line in d.lines}
    for decision in program:
        if alone and decision.axis == SCOPE and decision.value == "block":
            own = lines if decision.file is None else set()
            decision = replace(decision, value="warp", lines=tuple(sorted({*decision.lines, *own})))
        yield decision
