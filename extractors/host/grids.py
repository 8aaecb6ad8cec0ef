"""Grids that are counted in multiprocessors."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.derived import grid_lines
from extractors.host.expr import atoms, is_sms
from extractors.host.facts import Material
from kb.evidence import AxisKind, Decision


def coupled(material: Material) -> Iterator[Decision]:
    """As many blocks as the grid gives a multiprocessor share it, where no hint says how many."""
    launches = [launch for launch in material.launches if any(map(is_sms, atoms(launch.grid)))]
    hinted = any("occupancy" in dict(launch.kernel.hints) for launch in launches)
    lines = grid_lines(material)
    if launches and lines and not hinted:
        yield Decision(
            axis="occupancy",
            value="grid-coupled",
            pattern="blocks-per-multiprocessor-by-the-grid",
            lines=lines,
            kind=AxisKind.TUNING,
        )
