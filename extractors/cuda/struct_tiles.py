"""Sizes of tiles that functions of the host hand to a kernel in the arguments of a struct."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.instances import Given, structs
from extractors.cuda.library import Library
from kb.evidence import AxisKind, Decision, Lines


def tiles_by_struct(definition: n.Definition, library: Library, path: str) -> Iterator[Decision]:
    """Where a file gives a kernel's type parameter one struct template with different numbers, as
    many as it takes for heads, devices and switches."""
    for at, parameter in enumerate(definition.template):
        if parameter.dtype != "typename":
            continue
        given = [one for one in structs(definition.name, at, library) if one.at.path == path]
        named: dict[str, dict[tuple[object, ...], set[Lines]]] = {}
        for one in given:
            if numbers := _numbers(one):
                several = named.setdefault(one.name, {})
                several.setdefault(numbers, set()).add(place(one.at))
        for name, several in named.items():
            if len(several) > 1 and library.records(name):
                lines = {line for found in several.values() for line in found}
                yield Decision(
                    axis="tile_selection", value="heuristic(shape)", kind=AxisKind.HOST,
                    pattern="closed-form-tile-heuristic", lines=tuple(sorted(lines)),
                )  # fmt: skip


def _numbers(given: Given) -> tuple[object, ...]:
    """The numbers among the arguments of a struct, by their places; truth values are none."""
    return tuple(
        (at, one.value)
        for at, one in enumerate(given.arguments)
        if isinstance(one, n.Constant) and type(one.value) is int
    )
