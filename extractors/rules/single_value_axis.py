"""A tuning axis has the same value in every configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.configurations import searched_at
from extractors.host.events import SearchRecord
from extractors.host.expr import is_number
from extractors.host.facts import Material
from extractors.host.spaces import complete, passed, tried
from extractors.host.tuning import axis_names, effective_axes
from extractors.patterns.cases import vary
from extractors.patterns.cases_pointer import PRODUCT_PERSISTENT_POINTER
from extractors.patterns.grouped_rasterisation import GroupedRasterisation
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from kb.analysis.parameters import parameters_of
from kb.evidence import Finding, Severity
from kb.knowledge import ParameterRole

_CHOSEN = (ParameterRole.TILE_SIZE, ParameterRole.GROUPING)
_PASSED = vary(
    AUTOTUNED,
    ('{"T": t, "D": d}', '{"D": d}'),
    ("for t in (64, 128) ", ""),
    ("(x, out, n)", "(x, out, n, 64)"),
    ('meta["T"]', "64"),
)
_GROUPED = (
    vary(
        PRODUCT_PERSISTENT_POINTER,
        (", GROUP: tl.constexpr", ""),
        ("    rows = tl.cdiv(M, TM)", "    GROUP = 8\n    rows = tl.cdiv(M, TM)"),
        (
            "@triton.jit",
            "@triton.autotune([triton.Config({'TM': m, 'TN': 64, 'TK': k}) for m in (64, 128)\n"
            "                  for k in (32, 64)], key=['M', 'N', 'K'])\n@triton.jit",
        ),
    )
    + """
import torch
def run(a, b):
    M, K = a.shape
    N = b.shape[1]
    out = torch.empty(M, N)
    product[(132,)](a, b, out, M, N, K, a.stride(0), b.stride(0), out.stride(0))
    return out
"""
)


class SingleValueAxis(Rule):
    """An axis that reaches the kernel, with one number in a space of several configurations, or a
    tile size or grouping that every launch of a search writes as one number. A name
    that tells variants apart, and a size that follows from the problem, are no such axis."""

    name = "single-value-axis"
    matches = (
        Case(vary(SEARCHED, ("occupancy=2", "occupancy=1")), "`occupancy`"),
        Case(vary(AUTOTUNED, ("for w in (4, 8)", "for w in (4,)")), "`num_warps`"),
        Case(_PASSED, "every launch"),
        Case(_GROUPED, "groups of 8"),
    )
    near_misses = (
        NearMiss(
            vary(_PASSED, ("(x, out, n, 64)", "(x, out, n, n)")),
            why="the size follows the problem",
        ),
        NearMiss(SEARCHED, why="every axis has several values"),
        NearMiss(
            vary(AUTOTUNED, ("in (64, 128) for d in (0, 1) for w in (4, 8)",
                             "in (64,) for d in (0,) for w in (4,)")),
            why="there is one configuration: nothing claims to be searched",
        ),
    )  # fmt: skip

    seen = (Seen("tilegym", "tilegym/ops/cutile/attention_sink.py", "_attention_sink_kernel", 26),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            points = [dict(point) for case in search.cases for point in case.points]
            count = len(points)
            if material is None or count < 2 or not complete(search):
                continue
            fixed = {n: v for n in axis_names(search) if len(v := tried(search, n)) == 1}
            fixed = {
                n: v
                for n, v in fixed.items()
                if is_number(v[0]) and all(n in point for point in points)
            }
            effective = effective_axes(material, search) if fixed else set()
            for name, values in fixed.items():
                if name in effective:
                    yield self.finding(
                        subject,
                        f"`{name}` is {values[0]} in all {count} configurations: "
                        "nothing is searched",
                        f"give `{name}` more values, or pass it as a constant",
                        searched_at(material, search),
                        Severity.NOTE,
                    )
            yield from self._passed(subject, material, search)
            yield from self._written_out(subject)

    def _written_out(self, subject: Subject) -> Iterator[Finding]:
        """The height of groups of tiles, where the kernel has it as a number."""
        facts = subject.facts
        for height, first in GroupedRasterisation().heights(facts):
            for value in facts.graph.feeds(height.result)[-2:]:
                number = facts.values.expr(value).constant
                made = facts.graph.producer(facts.graph.core(value))
                if number is not None and number > 1:
                    yield self.finding(
                        subject,
                        f"tiles are taken in groups of {number}, which is a literal of the kernel "
                        "that no configuration lists: nothing is searched",
                        "make it a parameter, and list it in the space",
                        [made or height, first],
                        Severity.NOTE,
                    )
                    return

    def _passed(
        self, subject: Subject, material: Material, search: SearchRecord
    ) -> Iterator[Finding]:
        """Tile sizes and groupings that stand as one number in every launch of the search."""
        launches = material.tied(search)
        for fact in parameters_of(subject.facts):
            if fact.kind != "constexpr" or fact.role not in _CHOSEN:
                continue
            values = [passed(material, launch, fact.name) for launch in launches]
            numbers = {value for row in values for value in row or (None,)}
            if not values or len(numbers) != 1 or fact.name in axis_names(search):
                continue
            (number,) = numbers
            if is_number(number) and number != 1:
                yield self.finding(
                    subject,
                    f"`{fact.name}` is {number} in every launch, and no configuration lists it: "
                    "nothing is searched",
                    f"list `{fact.name}` in the space, or make it a constant of the kernel",
                    [dict(launch.arg_lines).get(fact.name, launch.lines) for launch in launches],
                    Severity.NOTE,
                )
