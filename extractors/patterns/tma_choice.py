"""Whether the copy engine may serve an access."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import NORM_PERSISTENT
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.evidence import Decision


class TmaChoice(Pattern):
    """The flag of an access that allows or forbids the tensor memory accelerator."""

    name = "per-access-tma-opt-in-opt-out"
    axis = "copy_engine"
    source = "cuTile documentation, load and store: allow_tma"
    matches = (
        Case(NORM_PERSISTENT, "allow_tma=False"),
        Case(vary(NORM_PERSISTENT, ("allow_tma=False", "allow_tma=True")), "allow_tma=True"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the compiler may choose"),
        NearMiss(PRODUCT_POINTER, why="the compiler may choose"),
        NearMiss(PRODUCT_THREADS, why="the compiler may choose"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Access]] = {}
        for access in facts.accesses:
            if access.allow_tma is None:
                continue
            literal = facts.values.literal(access.allow_tma)
            value = (
                f"allow_tma={literal}" if isinstance(literal, bool) else "allow_tma by parameter"
            )
            found.setdefault(value, []).append(access)
        for value, members in found.items():
            yield self.decide(facts, value, members)
