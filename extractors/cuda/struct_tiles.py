"""Sizes of tiles that functions of the host hand to a kernel in the arguments of a struct."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.instances import Given, structs
from extractors.cuda.library import Library
from kb.evidence import AxisKind, Decision


def tiles_by_struct(definition: n.Definition, library: Library, path: str) -> Iterator[Decision]:
    """Where a file gives a kernel's type parameter one struct template with different numbers, as
    many as it takes for heads, devices and switches."""
    for at, parameter in enumerate(definition.template):
        if parameter.dtype != "typename":
            continue
        given = [one for one in structs(definition.name, at, library) if one.at.path == path]
        for name in dict.fromkeys(one.name for one in given if library.records(one.name)):
            same = [one for one in given if one.name == name]
            several: dict[int, set[int]] = {}
            for where, number in (pair for one in same for pair in _numbers(one)):
                several.setdefault(where, set()).add(number)
            if any(len(numbers) > 1 for numbers in several.values()):
                lines = {place(one.at) for one in same}
                yield Decision(
                    axis="tile_selection", value="heuristic(shape)", kind=AxisKind.TUNING,
                    pattern="closed-form-tile-heuristic", lines=tuple(sorted(lines)),
                )  # fmt: skip


def _numbers(given: Given) -> Iterator[tuple[int, int]]:
    """The numbers among the arguments of a struct, by their places; truth values are none."""
    for at, one in enumerate(given.arguments):
        if isinstance(one, n.Constant) and type(one.value) is int:
            yield at, one.value
