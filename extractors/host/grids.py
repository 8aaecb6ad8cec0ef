"""Grids that are counted in multiprocessors."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.derived import grid_lines, marks_of
from extractors.host.expr import atoms, is_sms
from extractors.host.facts import Material
from extractors.host.origins import lines_of
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


def default_occupancy(material: Material) -> Iterator[Decision]:
    """Kernels of a language in which they are launched by a function and may be hinted how many
    blocks share a multiprocessor, where neither their mark, nor a launch, nor a search, nor the
    grid says how many."""
    launches, marks = material.launches, marks_of(material)
    if not launches or not marks or material.signature.name not in material.machine.by_function:
        return
    given = [name for one in launches for name, _ in one.kernel.hints]
    given += [name for name, _ in material.signature.decorator_hints]
    for search in material.searches:
        if search.hints is not None and not isinstance(search.hints, tuple):
            return
        given += [str(name) for name, _ in search.hints or ()]
    if "occupancy" in given or any(map(is_sms, atoms(tuple(one.grid for one in launches)))):
        return
    yield Decision(
        axis="occupancy",
        value="auto",
        pattern="occupancy-left-to-the-compiler",
        lines=tuple(sorted({*(lines_of(mark) for mark in marks), *(x.lines for x in launches)})),
        kind=AxisKind.TUNING,
    )
