"""Which number the exponent of a scale is kept above."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, vary
from extractors.patterns.float_by_bits import UP
from kb.analysis.facts import Facts
from kb.analysis.float_bits import bounds_of_exponents
from kb.evidence import Decision

_BOUND = "tl.maximum(tl.minimum(e, 254), 97)"


class ExponentBounded(Pattern):
    """An exponent that was shifted out of a float is kept above a number."""

    name = "exponent-bounded-from-below"
    axis = "eps_placement"
    source = "OCP Microscaling Formats (MX) Specification 1.0 (2023), section 6.3: E8M0 scales"
    matches = (Case(UP, "clamp of the exponent"),)
    near_misses = (
        NearMiss(vary(UP, (_BOUND, "tl.minimum(e, 254)")), why="bounded from above alone"),
        NearMiss(
            vary(UP, (_BOUND, "e"), ("/ 448.0)", "/ 448.0) * tl.maximum(n, 97)")),
            why="no exponent is bounded",
        ),
        NearMiss(PRODUCT, why="no exponent"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if bounds := bounds_of_exponents(facts):
            yield self.decide(facts, "clamp of the exponent", bounds)
