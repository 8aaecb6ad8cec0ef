"""Accesses that nothing keeps inside the arrays."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.evidence import Decision

_BARE = vary(
    ADD_POINTER,
    (", mask=inside) +", ") +"),
    ("y + at, mask=inside), mask=inside)", "y + at))"),
)


class UnmaskedAccesses(Pattern):
    """No load or store of a tile by pointers has a mask."""

    name = "accesses-without-a-bounds-check"
    axis = "boundary_handling"
    source = "Triton documentation, load: mask"
    matches = (Case(_BARE, "none: extents are whole tiles"),)
    near_misses = (
        NearMiss(ADD_POINTER, why="every access is masked"),
        NearMiss(vary(ADD_POINTER, (", mask=inside) +", ") +")), why="the others are masked"),
        NearMiss(PRODUCT, why="tiles of a view are kept inside by the view"),
        NearMiss(ADD_THREADS, why="threads outside do nothing"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.program is not facts.source:
            return
        wide = [a for a in facts.accesses if facts.types.shape(a.value)]
        bare = all(a.mode is Mode.POINTER and a.mask is None for a in wide)
        if wide and bare and any(a.is_store for a in wide):
            yield self.decide(facts, "none: extents are whole tiles", wide)
