"""Rows that lie as far apart as the launch says, while their elements lie side by side."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER
from extractors.patterns.cases_rows_pointer import ROW_NORM_POINTER
from kb.analysis.facts import Facts
from kb.analysis.strides import free_strides, placed_with, promised, row_strides, shared_strides
from kb.evidence import Decision

_FIXED = vary(
    PRODUCT_POINTER, ("sa, sb, so, TM", "sa: tl.constexpr, sb: tl.constexpr, so: tl.constexpr, TM")
)
_ONE = vary(ROW_NORM_POINTER, ("sx, so,", "s,"), ("* sx", "* s"), ("* so", "* s"))


class RowStrides(Pattern):
    """A parameter is nothing but the factor of a position in addresses, and the last axis has no
    stride."""

    name = "strides-of-rows-as-arguments"
    axis = "layout_contract"
    source = "PyTorch documentation, tensor views: stride"
    matches = (
        Case(PRODUCT_POINTER, "strides as arguments"),
        Case(LAYER_NORM_POINTER, "strides as arguments"),
        Case(ROW_NORM_POINTER, "strides as arguments"),
        Case(_FIXED, "strides as arguments"),
        Case(_ONE, "strides as arguments"),
    )
    near_misses = (
        NearMiss(
            vary(PRODUCT_POINTER, ("* sa", "* K"), ("* sb", "* N"), ("* so", "* N")),
            why="rows lie one after the other",
        ),
        NearMiss(
            vary(ROW_NORM_POINTER, ("* sx", "* N"), ("* so", "* N")),
            why="rows lie one after the other",
        ),
        NearMiss(ADD_POINTER, why="a flat array has no strides"),
        NearMiss(PRODUCT, why="views know their strides"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        names = row_strides(facts)
        shared = shared_strides(facts) if names else set()
        names -= free_strides(facts) | (shared if len(shared) > 1 else set()) if names else set()
        if names:
            yield self.told(facts, names)

    def told(self, facts: Facts, names: set[str]) -> Decision:
        """What some of the parameters tell."""
        where: list[Where] = [*facts.declared(*names), *placed_with(facts, names)]
        where += promised(facts)
        return self.decide(facts, "strides as arguments", where, ", ".join(sorted(names)))
