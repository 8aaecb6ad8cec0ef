"""The kernel that takes the winner of a search carries other hints than the one that was timed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.events import HintRecord, LaunchRecord, SearchRecord
from extractors.host.expr import atoms
from extractors.host.facts import Material, axis_atoms
from extractors.host.render import leaves
from extractors.host.tuning import timed_with
from extractors.host.values import Choice, Expr, Unknown, Value
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import SEARCHED, TIMED_HINTS
from kb.evidence import Finding, Lines
from kb.space import Point

_LAUNCHED = "replace_hints(occupancy=best.occupancy)"


class TimedNotLaunched(Rule):
    """A launch that takes nothing but the winner of a search, with hints that the search never
    timed. In Triton the search launches its own winner, so that it cannot occur there."""

    name = "timed-not-launched"
    dialects = ("cutile",)
    matches = (
        Case(vary(SEARCHED, (TIMED_HINTS, "")), "occupancy=occupancy"),
        Case(vary(SEARCHED, (_LAUNCHED, "replace_hints(occupancy=2)")), "occupancy=2"),
    )
    near_misses = (
        NearMiss(SEARCHED, why="the launch carries the hint that was timed"),
        NearMiss(
            vary(SEARCHED, (TIMED_HINTS, ""), (_LAUNCHED, "replace_hints()")),
            why="neither of them carries a hint",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 799),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            if (
                material is None
                or search.kind != "exhaustive_search"
                or isinstance(search.kernel, Choice)
            ):
                continue
            timed = timed_with(material, search, material.search_names(search))
            for launch in material.tied(search):
                launched = material.names(launch).point(launch.kernel.hints)
                if certain(launch, search.id) and dict(timed) != dict(launched):
                    hinted = _hinted(material, launch)
                    yield self._told(subject, search, launch, (timed, launched), hinted)

    def _told(
        self,
        subject: Subject,
        search: SearchRecord,
        launch: LaunchRecord,
        settings: tuple[Point, Point],
        hinted: list[Lines],
    ) -> Finding:
        timed, launched = settings
        return self.finding(
            subject,
            f"the search times the kernel with {_shown(timed)}, the launch at line "
            f"{launch.lines[0]} runs it with {_shown(launched)}: the launched setting was "
            "never timed",
            "time the kernel with the hints it is launched with",
            (launch.lines, search.lines, *hinted),
        )


def _hinted(material: Material, launch: LaunchRecord) -> list[Lines]:
    """Where the launched kernel was given its hints."""
    return [
        event.lines
        for event in material.before(launch)
        if isinstance(event, HintRecord) and event.hints == launch.kernel.hints
    ]


def certain(launch: LaunchRecord, search: int) -> bool:
    """Whether a launch takes the winner of this search and nothing else, with hints that are
    known."""
    values = [value for _, value in (*launch.args, *launch.kernel.hints)]
    if any(isinstance(leaf, Unknown) for _, value in launch.kernel.hints for leaf in leaves(value)):
        return False
    others = {atom.args[0] for value in values for atom in atoms(value) if atom.op == "axis"}
    return others <= {search} and not any(_mixed(value, search) for value in (*values, launch.grid))


def _mixed(value: Value, search: int) -> bool:
    """Whether a searched value and another one are alternatives somewhere inside."""
    pending = [value]
    while pending:
        item = pending.pop()
        either = isinstance(item, Choice) or (isinstance(item, Expr) and item.op in ("and", "or"))
        if either and axis_atoms(item, search):
            return True
        if isinstance(item, Expr):
            pending.extend(item.args)
        elif isinstance(item, tuple):
            pending.extend(item)
    return False


def _shown(point: Point) -> str:
    return ", ".join(f"{name}={value}" for name, value in point) or "no hints"
