"""Promises about positions that the compiler could not have found out."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.argument_strides import ArgumentStrides
from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from extractors.patterns.row_strides import RowStrides
from kb.analysis.facts import Facts
from kb.analysis.strides import promised
from kb.evidence import Decision

_WRAPPED = vary(
    PRODUCT_POINTER,
    ("* sa", "* K"),
    ("* sb", "* N"),
    ("* so", "* N"),
    (
        "    k = tl.arange(0, TK)\n",
        "    m = tl.max_contiguous(tl.multiple_of(m % M, TM), TM)\n    k = tl.arange(0, TK)\n",
    ),
)
_COUNTED = (
    POINTER
    + """
@triton.jit
def move(x, out, n, T: tl.constexpr):
    for i in range(0, n, T):
        i = tl.multiple_of(i, T)
        at = i + tl.arange(0, T)
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)
"""
)


class AssertedLayout(Pattern):
    """Positions of lanes, on their way to an address, are declared multiples or contiguous, where
    no strides are handed in; else that is told with the strides."""

    name = "contiguity-and-divisibility-asserted-by-hints"
    axis = "layout_contract"
    source = "Triton documentation, tl.multiple_of, tl.max_contiguous"
    matches = (Case(_WRAPPED, "asserted by hints"),)
    near_misses = (
        NearMiss(vary(_WRAPPED, ("tl.max_contiguous(tl.multiple_of(m % M, TM), TM)", "m % M")),
                 why="the positions stand as they were computed"),
        NearMiss(
            vary(_WRAPPED, ("m[:, None] * K", "m[:, None] * sa")), why="told with the stride"
        ),
        NearMiss(_COUNTED, why="a loop that counts by the tile says as much itself"),
        NearMiss(PRODUCT_POINTER, why="nothing is promised"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = promised(facts)
        strides = (RowStrides(), ArgumentStrides()) if found else ()
        if found and not any(True for p in strides for _ in p.seen(facts)):
            yield self.decide(facts, "asserted by hints", found)
