"""What the program tells that the grid of the launch belongs to."""

from __future__ import annotations

from extractors.patterns.ascending_tiles import AscendingTiles
from extractors.patterns.unmasked_accesses import UnmaskedAccesses
from kb.evidence import Decision

SHARED_OUT = frozenset({"work_decomposition", "grid_mapping"})
"""Axes that tell how the work is shared out."""

COVERED = frozenset({AscendingTiles.name, UnmaskedAccesses.name})
"""Patterns of what holds as long as the grid covers the problem, in order or exactly."""


def of_the_grid(decision: Decision) -> bool:
    """Whether the lines that make the grid belong to a decision of the program."""
    given = decision.axis in SHARED_OUT or decision.pattern in COVERED
    return given and decision.file is None
