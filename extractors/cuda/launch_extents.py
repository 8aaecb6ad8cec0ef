"""What the extents of a launch rest on: axes of the grid that are short, sizes that must not be
zero, and blocks that a kernel counts on without asking how large they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from extractors.host.file_facts import EmptyGrid
from kb.ir import Kernel, walk
from kb.ops import OpKind
from kb.space import Constraint, Launch, Origin, implied

GRID_LIMIT = 65_535
"""Blocks along the second and the third axis of a grid. Source: CUDA C++ Programming Guide,
technical specifications per compute capability."""

MAX_TOLD = 3
"""Extents that one constraint speaks of."""

_PLAIN = re.compile(r"[A-Za-z_][\w.]*(?:\[-?\d+\])?")
_AXES = ("x", "y", "z")
_CALLED = re.compile(r"\b\w+\s*\(|::|\?|<")


def extents(
    kernel: Kernel, launches: Sequence[Launch], empty: Sequence[EmptyGrid]
) -> Iterator[Constraint]:
    """Constraints by the extents of every launch of a kernel."""
    yield from _short_axes(launches)
    yield from _not_empty(empty)
    yield from _counted_on(kernel, launches)


def _short_axes(launches: Sequence[Launch]) -> Iterator[Constraint]:
    """Axes of a grid after the first whose blocks the host computes. One constraint for all."""
    told: dict[str, Launch] = {}
    for launch in launches:
        for text in launch.grid[1:]:
            if not text.isdigit() and not _CALLED.search(text):
                told.setdefault(text, launch)
    if told:
        yield implied(
            " and ".join(f"{_whole(text)} <= {GRID_LIMIT}" for text in list(told)[:MAX_TOLD]),
            "the second and the third axis of a grid take no more blocks",
            "put the longest axis first, or go through it in a loop",
            next(iter(told.values())).lines,
        )


def _whole(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else f"({text})"


def _not_empty(empty: Sequence[EmptyGrid]) -> Iterator[Constraint]:
    """Sizes that make a grid of no blocks when they are zero. One constraint for all of them."""
    sizes = [one for one in empty if _PLAIN.fullmatch(one.size)]
    if sizes:
        yield implied(
            " and ".join(f"{one.size} > 0" for one in sizes[:MAX_TOLD]),
            "a grid without a block cannot be launched",
            "return before the launch when there is nothing to do",
            sizes[0].lines[0],
        )


def _counted_on(kernel: Kernel, launches: Sequence[Launch]) -> Iterator[Constraint]:
    """Extents of a block that every launch gives the same number and that the kernel never asks
    for although it tells its threads apart along that axis."""
    given = [dict(launch.hints) for launch in launches]
    if not given:
        return
    told, asked = _axes(kernel, OpKind.THREAD_ID), _axes(kernel, OpKind.BLOCK_THREADS)
    for axis, letter in enumerate(_AXES):
        numbers = {one.get(f"block_{letter}") for one in given}
        number = next(iter(numbers))
        if len(numbers) == 1 and isinstance(number, int) and number > 1:
            if axis in told and axis not in asked and None not in asked:
                yield Constraint(
                    expression=f"block_{letter} == {number}", origin=Origin.STATED,
                    checked_by_host=True, lines=launches[0].lines,
                    because="every launch has so many threads, and the kernel counts on them "
                    "without asking how many there are",
                    hint="keep to it where the kernel is launched from elsewhere",
                )  # fmt: skip


def _axes(kernel: Kernel, kind: OpKind) -> set[object]:
    """The axes along which a kernel asks for something; None for one that is not known."""
    numbers = {
        op.results[0].name: op.attribute("value")
        for op in walk(kernel.entry.body)
        if op.kind == OpKind.CONST and op.results
    }
    return {
        numbers.get(op.operand("axis") or "") for op in walk(kernel.entry.body) if op.kind == kind
    }
