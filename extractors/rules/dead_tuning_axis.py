"""A tuning axis is searched and never reaches the timed kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.events import SearchRecord
from extractors.host.facts import Material, axis_atoms
from extractors.host.spaces import space_lines, tried
from extractors.host.tuning import axis_names, carriers_known, effective_axes
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED, TIMED_HINTS
from kb.evidence import Finding


class DeadTuningAxis(Rule):
    """An axis that a space varies and that no argument, grid or hint of the timed kernel carries.

    Configurations that differ only there are timed as one.
    """

    name = "dead-tuning-axis"
    matches = (
        Case(vary(SEARCHED, (TIMED_HINTS, "")), "`occupancy`"),
        Case(vary(AUTOTUNED, (" + D", "")), "`D`"),
    )
    near_misses = (
        NearMiss(SEARCHED, why="the function of hints carries every axis"),
        NearMiss(AUTOTUNED, why="the kernel reads the parameter"),
        NearMiss(
            vary(AUTOTUNED, (" + D", ""), ("for d in (0, 1)", "for d in (1,)")),
            why="there is one value, so no two configurations are the same",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 182),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            if material is not None and carriers_known(search):
                yield from self._dead(subject, material, search)

    def _dead(
        self, subject: Subject, material: Material, search: SearchRecord
    ) -> Iterator[Finding]:
        if search.has_hints and not axis_atoms(search.hints, search.id):
            return  # a function of hints that reads no axis was not understood
        effective = effective_axes(material, search)
        for name in axis_names(search):
            values = tried(search, name)
            if name in effective or len(values) < 2:
                continue
            shown = ", ".join(map(str, values[:6]))
            yield self.finding(
                subject,
                f"the search lists `{name}` ({shown}), but {_why(material, search, name)}: "
                "configurations that differ only there are timed as one",
                f"carry `{name}` to the timed kernel (its arguments, or the hints function), "
                "or drop it",
                space_lines(search),
            )


def _why(material: Material, search: SearchRecord, name: str) -> str:
    carried = axis_atoms(search.args, search.id) | {p for p, _ in material.signature.params}
    if name in carried:
        return "the kernel never reads the parameter it is bound to"
    return "neither the arguments, nor the grid, nor the hints of the timed kernel carry it"
