"""Elements on one side of a diagonal, kept without a product or a softmax around."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM, SOFTMAX
from kb.analysis.diagonals import MULTIPLIED, PADDED, SET, kept_sides
from kb.analysis.facts import Facts
from kb.evidence import Decision

LOWER = (
    POINTER
    + """
@triton.jit
def lower(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(out + row * n + at, tl.where(at <= row, v, 0.0), mask=at < n)
"""
)
_LOWER_TILE = (
    TILE
    + """
@ct.kernel
def lower(x, out, T: Int):
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    keep = ct.astype(at <= row, ct.float32)
    v = ct.load(x, index=(row, 0), shape=(1, T)).reshape((T,))
    ct.store(out, index=(row, 0), tile=(v * keep).reshape((1, T)))
"""
)


_LOADED = (
    POINTER
    + """
@triton.jit
def lower(x, to, n, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    col = tl.program_id(1) * T + tl.arange(0, T)
    inside = (row[:, None] < n) & (col[None, :] < n)
    at = row[:, None] * n + col[None, :]
    v = tl.load(x + at, mask=inside & (col[None, :] <= row[:, None]), other=-1e9)
    tl.store(to + at, v, mask=inside)
"""
)


class SideOfADiagonal(Pattern):
    """What was loaded, or computed from it, is kept where one position is not above another one,
    of which none is an extent; elsewhere a number takes its place, or it is multiplied with the
    comparison; or it is all that is loaded, and stored with the padding of the load."""

    name = "one-side-of-a-diagonal-element-by-element"
    axis = "mask_application"
    source = "LAPACK Users' Guide: triangular matrices, of which one side is referenced"
    matches = (
        Case(LOWER, SET),
        Case(
            vary(LOWER, ("v, 0.0", 'v, -float("inf")')),
            SET,
        ),
        Case(_LOWER_TILE, MULTIPLIED),
        Case(_LOADED, PADDED),
    )
    near_misses = (
        NearMiss(
            vary(LOWER, ("where(at <= row", "where(at <= n")),
            why="lanes past the end, which is the padding's business",
        ),
        NearMiss(vary(LOWER, ("where(at <= row", "where(at == row")), why="one element"),
        NearMiss(
            vary(_LOWER_TILE, ("at <= row", "at <= T - 2")), why="the same lanes in every row"
        ),
        NearMiss(
            vary(_LOADED, ("& (col[None, :] <= row[:, None])", "")), why="the padding's business"
        ),
        NearMiss(vary(_LOADED, ("to + at, v,", "to + at, v * v,")), why="computed with"),
        NearMiss(ATTENTION, why="scores of an attention: told there"),
        NearMiss(PRODUCT, why="nothing is masked"),
        NearMiss(ADD_POINTER, why="nothing is masked"),
        NearMiss(SOFTMAX, why="padding alone"),
        NearMiss(ROW_NORM, why="nothing is masked"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for value, where in kept_sides(facts).items():
            yield self.decide(facts, value, where)
