"""What a pattern is: a rule that finds one decision in dataflow, with its source, its cases and
its near misses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Lines, Node
from kb.evidence import AxisKind, Decision
from kb.ir import Function, ParameterKind

KINDS: dict[str, AxisKind] = {
    **dict.fromkeys(
        (
            "prefetch_depth", "occupancy", "cluster_size", "num_warps", "tile_selection",
            "split_count", "cache_hint",
        ),
        AxisKind.TUNING,
    ),
    **dict.fromkeys(
        (
            "algorithm_selection", "layout_contract", "specialization", "arch_dispatch",
            "autotuning", "search_pruning", "optional_inputs", "code_structure", "oob_rows",
        ),
        AxisKind.HOST,
    ),
}  # fmt: skip
"""Kind of every axis that is not a design axis; as in the catalogue."""

UNKNOWN = "?"
"""The dtype of a value that the program does not tell."""

Where = Node | Access | Lines | None


@dataclass(frozen=True, slots=True)
class Case:
    """Source text of a small module whose first kernel holds the pattern; `value` is what must be
    seen."""

    text: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Source text that looks alike and must not be taken for the pattern, with the reason.

    When `value` is given, only that value must not be seen.
    """

    text: str
    why: str
    value: str | None = None


_SEEN: WeakKeyDictionary[Facts, dict[type, tuple[Decision, ...]]] = WeakKeyDictionary()
"""What patterns found in a kernel, as long as its facts are in use."""


class Pattern:
    """A recogniser of one axis. Subclasses say `name`, `axis`, `source`, `matches` and
    `near_misses`."""

    name: ClassVar[str]
    axis: ClassVar[str]
    source: ClassVar[str]
    matches: ClassVar[tuple[Case, ...]]
    near_misses: ClassVar[tuple[NearMiss, ...]]

    def __init_subclass__(cls) -> None:
        for wanted in ("name", "axis", "source", "matches", "near_misses"):
            if not getattr(cls, wanted, None):
                raise TypeError(
                    f"{cls.__name__} says no {wanted}; a pattern brings its cases and its source"
                )

    def find(self, facts: Facts) -> Iterable[Decision]:
        """Every place where the kernel decides the axis in a way that this pattern knows."""
        raise NotImplementedError

    def seen(self, facts: Facts) -> tuple[Decision, ...]:
        """The same, looked for once: for those who ask what another pattern says of the kernel."""
        known = _SEEN.setdefault(facts, {})
        if type(self) not in known:
            known[type(self)] = tuple(self.find(facts))
        return known[type(self)]

    def decide(
        self, facts: Facts, value: str, where: Iterable[Where], subject: str | None = None
    ) -> Decision:
        """A decision with the lines of the places given; `file` is set when they lie outside the
        kernel's file."""
        home = facts.kernel.entry.span.path
        lines, path = _lines(where, home)
        return Decision(
            axis=self.axis, value=value, pattern=self.name, lines=lines,
            kind=KINDS.get(self.axis, AxisKind.DESIGN), subject=subject,
            file=path if path != home else None,
        )  # fmt: skip


def head_of(entry: Function) -> Lines:
    """The lines of a function's head, down to its first parameter that is no compile-time one."""
    first = entry.span.line
    given = [p.span.line for p in entry.parameters if p.kind is not ParameterKind.CONSTEXPR]
    return (first, max(first, given[0] if given else first))


def _lines(where: Iterable[Where], home: str) -> tuple[tuple[Lines, ...], str]:
    """Line ranges by file; those of the kernel's own file when there are any."""
    found: dict[str, set[Lines]] = {}
    for place in where:
        if place is None:
            continue
        if isinstance(place, tuple):
            found.setdefault(home, set()).add(place)
            continue
        node = place.node if isinstance(place, Access) else place
        if node.op.span.line > 0:
            lines = found.setdefault(node.op.span.path or home, set())
            lines.add(node.lines)
            if node.op.span.call:
                lines.update((one, one) for one in (node.op.span.call, *node.op.span.via))
    path = home if home in found or not found else next(iter(found))
    return tuple(sorted(found.get(path, ()))), path
