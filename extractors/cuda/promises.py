"""Pointers that promise to be the only way to what they point at, besides those that a kernel is
given one by one: fields of its structs, and copies that it makes."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.cuda import nodes as n
from extractors.cuda.accessors import restricted
from extractors.cuda.block_size import place
from extractors.cuda.library import Library
from kb.evidence import AxisKind, Decision, Lines


def promises(definition: n.Definition, library: Library) -> Iterator[Decision]:
    """One decision with the lines of all such pointers that stand in the file of the kernel; copies
    of what the kernel is given with that promise add nothing to it."""
    lines = set(_fields(definition, library))
    if not any(one.type.restrict for one in definition.parameters):
        lines |= {
            place(one.at)
            for one in n.inside(definition.body)
            if isinstance(one, n.Variable) and one.type.restrict
        }
    if lines:
        yield Decision(
            axis="aliasing", value="__restrict__", pattern="restrict-qualified-pointers",
            lines=tuple(sorted(lines)), kind=AxisKind.DESIGN,
        )  # fmt: skip


def _fields(definition: n.Definition, library: Library) -> Iterator[Lines]:
    for parameter in definition.parameters:
        if parameter.type.pointers:
            continue
        if restricted(parameter.type):
            yield place(parameter.at)
        for record in library.records(parameter.type.name):
            for one in record.fields:
                if one.type.restrict and one.at.path == definition.at.path:
                    yield place(one.at)
