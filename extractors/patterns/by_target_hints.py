"""Hints that a kernel takes by the target it is compiled for."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision

_HINTS = frozenset({"occupancy", "num_ctas", "num_worker_warps"})
_BY_TARGET = vary(PRODUCT, ("@ct.kernel\n", "@ct.kernel(occupancy=ct.ByTarget(sm_100=2))\n"))
_FIXED = vary(PRODUCT, ("@ct.kernel\n", "@ct.kernel(occupancy=2)\n"))


class ByTargetHints(Pattern):
    """An option of the kernel's decorator names values per architecture."""

    name = "decorator-hint-by-target"
    axis = "arch_dispatch"
    source = "cuTile documentation, ByTarget"
    matches = (Case(_BY_TARGET, "ByTarget"),)
    near_misses = (
        NearMiss(_FIXED, why="one value for every target"),
        NearMiss(PRODUCT_POINTER, why="the decorator has no options"),
        NearMiss(PRODUCT_THREADS, why="the decorator has no options"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        entry = facts.kernel.entry
        if any(name in _HINTS and isinstance(value, str) for name, value in entry.options):
            # The decorator stands on the line above the function.
            line = max(entry.span.line - 1, 1)
            yield self.decide(facts, "ByTarget", ((line, line),))
