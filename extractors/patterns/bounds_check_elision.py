"""A bounds check that the compiler can drop, because a comparison of constants says that nothing
lies outside."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows import ROW_NORM, SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import COMPARISONS


class BoundsCheckElision(Pattern):
    """The check of an access is a compile-time comparison."""

    name = "bounds-check-elision-by-constexpr-alignment"
    axis = "boundary_handling"
    source = "cuTile documentation, gather: check_bounds"
    matches = (
        Case(ROW_NORM, "check_bounds = (TILE != N)"),
        Case(vary(SOFTMAX, ("check_bounds=True", "check_bounds=False")), "not needed"),
    )
    near_misses = (
        NearMiss(SOFTMAX, why="the check is always made"),
        NearMiss(SOFTMAX_POINTER, why="the check is always made"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        elided: list[Node | Access] = []
        off: list[Access] = []
        for access in facts.accesses:
            made = facts.graph.producer(facts.graph.core(access.check_bounds))
            if made is not None and made.op.kind in COMPARISONS:
                elided += [made, access]
            elif facts.values.literal(access.check_bounds) is False:
                off.append(access)
        if elided:
            yield self.decide(facts, "check_bounds = (TILE != N)", elided)
        if off:
            yield self.decide(facts, "not needed", off)
