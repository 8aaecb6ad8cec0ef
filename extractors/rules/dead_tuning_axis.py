"""A tuning axis is searched and never reaches the timed kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.configurations import searched_at
from extractors.host.events import SearchRecord
from extractors.host.facts import Material, axis_atoms
from extractors.host.spaces import tried
from extractors.host.tuning import axis_names, carriers_known, effective_axes
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED, TIMED_HINTS
from kb.analysis.loops import Loop
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_HINTS = ("num_ctas", "occupancy", "num_worker_warps", "opt_level")
"""Hints of cuTile, which a function of hints hands on by name."""

STAGES = "num_stages"
"""The launch option of Triton that says how many loads of a loop are in flight."""

_STAGED = vary(AUTOTUNED, ("num_warps=w)", "num_stages=w)"))


_ONE_BLOCK = vary(
    SEARCHED,
    ("T=64, occupancy=1)", "T=64, num_ctas=1, occupancy=1)"),
    ("occupancy=2)", "num_ctas=1, occupancy=2)"),
    ("T=256, occupancy=1)", "T=256, num_ctas=1, occupancy=1)"),
)


class DeadTuningAxis(Rule):
    """An axis that a space varies and that no argument, grid or hint of the timed kernel carries.

    Configurations that differ only there are timed as one. A number of stages is carried by loops
    that load. A hint that has one value everywhere and is left out of the hints is told, too.
    """

    name = "dead-tuning-axis"
    matches = (
        Case(vary(SEARCHED, (TIMED_HINTS, "")), "`occupancy`"),
        Case(vary(AUTOTUNED, (" + D", "")), "`D`"),
        Case(_STAGED, "`num_stages`"),
        Case(_ONE_BLOCK, "`num_ctas`"),
    )
    near_misses = (
        NearMiss(SEARCHED, why="the function of hints carries every axis"),
        NearMiss(
            vary(_ONE_BLOCK, ("{'occupancy': cfg.occupancy}",
                              "{'occupancy': cfg.occupancy, 'num_ctas': cfg.num_ctas}")),
            why="the function of hints carries the one value",
        ),
        NearMiss(AUTOTUNED, why="the kernel reads the parameter"),
        NearMiss(
            vary(
                AUTOTUNED, ('"D": d', '"waves_per_eu": d'), (", D: tl.constexpr", ""), (" + D", "")
            ),
            why="the compiler for AMD takes it",
        ),
        NearMiss(
            vary(AUTOTUNED, (" + D", ""), ("for d in (0, 1)", "for d in (1,)")),
            why="there is one value, so no two configurations are the same",
        ),
        NearMiss(
            vary(
                _STAGED,
                ("    v = tl.load", "    for i in range(n):\n        v = tl.load"),
                ("    tl.store(out", "        tl.store(out"),
            ),
            why="a loop loads: its loads are overlapped",
        ),
    )  # fmt: skip
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 182),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            if material is not None and carriers_known(search):
                yield from self._dead(subject, material, search)
                yield from self._unpipelined(subject, search)

    def _dead(
        self, subject: Subject, material: Material, search: SearchRecord
    ) -> Iterator[Finding]:
        if search.has_hints and not axis_atoms(search.hints, search.id):
            return  # a function of hints that reads no axis was not understood
        effective = effective_axes(material, search)
        for name in axis_names(search):
            values = tried(search, name)
            if name in effective or not values:
                continue
            if len(values) == 1:
                if search.has_hints and name in _HINTS:
                    yield self._left_out(subject, search, name, values[0])
                continue
            shown = ", ".join(map(str, values[:6]))
            yield self.finding(
                subject,
                f"the search lists `{name}` ({shown}), but {_why(material, search, name)}: "
                "configurations that differ only there are timed as one",
                f"carry `{name}` to the timed kernel (its arguments, or the hints function), "
                "or drop it",
                searched_at(subject.host.material, search),
            )

    def _left_out(
        self, subject: Subject, search: SearchRecord, name: str, value: object
    ) -> Finding:
        """A hint with one value that the function of hints does not hand on."""
        return self.finding(
            subject,
            f"every configuration has `{name}` ({value}), but the hints of the timed kernel do "
            "not carry it: it is never applied",
            f"carry `{name}` to the timed kernel and to the launch, or drop it",
            searched_at(subject.host.material, search),
            Severity.NOTE,
        )

    def _unpipelined(self, subject: Subject, search: SearchRecord) -> Iterator[Finding]:
        """Numbers of stages, which only a loop has, of a kernel without a loop that loads."""
        stages = tried(search, STAGES)
        if len(stages) > 1 and not pipelines(subject):
            yield self.finding(
                subject,
                f"the search lists `{STAGES}` ({', '.join(map(str, stages[:6]))}), but no loop of "
                "the kernel loads anything that stages could overlap: configurations that differ "
                "only there are the same program",
                f"drop `{STAGES}` from the space",
                searched_at(subject.host.material, search),
            )


def pipelines(subject: Subject) -> bool:
    """Whether stages may change the program: a loop that is not unrolled loads, or something was
    not understood."""
    facts = subject.facts
    unrolled = {loop.node for loop in facts.loops if _static(loop)}
    loaded = (access.node for access in facts.accesses if not access.is_store)
    return bool(facts.graph.of(OpKind.OPAQUE, OpKind.CALL, OpKind.INLINE_ASM)) or any(
        loop not in unrolled for node in loaded for loop in node.loops
    )


def _static(loop: Loop) -> bool:
    return loop.range is not None and loop.range.kind == OpKind.STATIC_RANGE


def _why(material: Material, search: SearchRecord, name: str) -> str:
    carried = axis_atoms(search.args, search.id) | {p for p, _ in material.signature.params}
    if name in carried:
        return "the kernel never reads the parameter it is bound to"
    return "neither the arguments, nor the grid, nor the hints of the timed kernel carry it"
