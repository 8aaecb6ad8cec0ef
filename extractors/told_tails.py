"""What becomes of a rest: what the program does with it, and what host and kernel demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.host.served import WHOLE
from extractors.patterns.divisibility_specialisation import EVEN
from extractors.patterns.whole_vectors import WholeVectors
from kb.evidence import Decision, Lines

DEMANDED = "extents-demanded-to-be-whole-tiles"
"""The pattern of extents that must leave no rest."""

FLAGGED = "flags-of-whole-extents"
"""Stands for what the host asks before it sets a flag of whole extents."""

_BOUND = "loop bound"
"""The only bounds check of threads that walk whole vectors."""

_UNCHECKED = ("not needed", "none: extents are whole tiles")


def fits_whole(rule: Decision, program: Sequence[Decision]) -> bool:
    """Whether an extent is rounded up to a tile, for a program that checks no bounds: what is run
    over then has no rest, or goes through it in chunks."""
    checks = [d.value for d in program if d.axis == "boundary_handling"]
    return rule.axis == "tile_padding" and bool(checks) and all(v in _UNCHECKED for v in checks)


def with_demands(
    program: Sequence[Decision], rest: Sequence[Decision]
) -> tuple[list[Decision], list[Decision]]:
    """Where the program takes whole vectors for granted, what demands them belongs to that; where
    it does something with a rest, what else is demanded of tiles is not told. Where it does
    nothing, what is demanded belongs to the bound of its loops, too, which then suffices, and to
    threads that ask for no bound at all."""
    demands = [d for d in rest if d.pattern == DEMANDED]
    told = {d.pattern for d in program if d.axis == WholeVectors.axis}
    lines = {line for d in demands for line in d.lines}
    if not demands or not told:
        return [_with_lines(d, lines) if _is_bound(d) else d for d in program], [*rest]
    joined = [_with_lines(d, lines) if d.pattern == WholeVectors.name else d for d in program]
    return joined, [d for d in rest if d.pattern != DEMANDED]


def _is_bound(told: Decision) -> bool:
    bounds = (_BOUND, _UNCHECKED[1])
    return told.axis == "boundary_handling" and told.value in bounds and told.file is None


def _with_lines(told: Decision, lines: set[Lines]) -> Decision:
    return replace(told, lines=tuple(sorted({*told.lines, *lines}))) if lines else told


def with_variants(
    program: Sequence[Decision], rest: Sequence[Decision]
) -> tuple[list[Decision], list[Decision]]:
    """Where the program does something with a rest, that the host launches another kernel where
    there is one, or none, belongs to it."""
    apart = [d for d in rest if d.pattern == WHOLE]
    tails = [d for d in program if d.axis == "tail_handling" and d.file is None]
    if not apart or not tails:
        return [*program], [*rest]
    lines = {line for d in (tails[0], *apart) for line in d.lines}
    whole = replace(tails[0], lines=tuple(sorted(lines)))
    return (
        [whole if d is tails[0] else d for d in program],
        [d for d in rest if d.pattern != WHOLE],
    )


def with_flags(
    program: Sequence[Decision], rest: Sequence[Decision]
) -> tuple[list[Decision], list[Decision]]:
    """Where a compile-time flag spares the program its checks, what the host asks before it sets
    one belongs to that; else it is not told."""
    lines = {line for d in rest if d.pattern == FLAGGED for line in d.lines}
    joined = [_with_lines(d, lines) if d.value == EVEN and d.file is None else d for d in program]
    return joined, [d for d in rest if d.pattern != FLAGGED]
