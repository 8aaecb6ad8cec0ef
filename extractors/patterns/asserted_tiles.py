"""Extents that the kernel asserts to be whole tiles, so that no tail is left."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

ASSERTED_ROWS = (
    POINTER
    + """
@triton.jit
def twice(x, out, m, K: tl.constexpr, T: tl.constexpr, S: tl.constexpr):
    tl.static_assert(K % T == 0)
    row = tl.program_id(0) * S + tl.arange(0, S)
    for j in range(0, K, T):
        at = row[:, None] * K + j + tl.arange(0, T)[None, :]
        v = tl.load(x + at, mask=row[:, None] < m)
        tl.store(out + at, v + v, mask=row[:, None] < m)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def twice(x, out, K: Int, T: Int):
    ct.static_assert(K % T == 0)
    for j in range(K // T):
        at = j * T + ct.arange(T, dtype=ct.int32)
        v = ct.gather(x, (ct.bid(0), at), check_bounds=False)
        ct.scatter(out, (ct.bid(0), at), v + v, check_bounds=False)
"""
)


class AssertedTiles(Pattern):
    """The kernel asserts that an extent leaves no rest when the extent of a tile divides it."""

    name = "whole-tiles-asserted"
    axis = "tail_handling"
    source = "Triton documentation, static_assert"
    matches = (
        Case(ASSERTED_ROWS, "none: whole tiles asserted"),
        Case(_TILES, "none: whole tiles asserted"),
        Case(
            vary(ASSERTED_ROWS, ("K % T == 0)", "K % T == 0 and m > 0)")),
            "none: whole tiles asserted",
        ),
        Case(vary(ASSERTED_ROWS, ("tl.static_assert(", "assert (")), "none: whole tiles asserted"),
    )
    near_misses = (
        NearMiss(vary(ASSERTED_ROWS, ("K % T", "T % S")), why="one tile is a multiple of another"),
        NearMiss(vary(ASSERTED_ROWS, ("K % T", "K % 8")), why="no tile: how wide an access may be"),
        NearMiss(vary(ASSERTED_ROWS, ("K % T == 0", "K >= T")), why="a bound, no multiple"),
        NearMiss(vary(_TILES, ("K % T == 0", "K >= T")), why="a bound, no multiple"),
        NearMiss(ADD_POINTER, why="nothing is asserted"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if asserted := whole_tiles(facts):
            yield self.decide(facts, "none: whole tiles asserted", asserted)


def whole_tiles(facts: Facts) -> list[Node]:
    """What asserts that extents of the problem are multiples of tiles."""
    return [
        node
        for node in facts.graph.of(OpKind.STATIC_ASSERT, OpKind.DEVICE_ASSERT)
        for test in facts.graph.roots(node.op.operand("condition"), OpKind.EQ)
        if any(_divides(facts, facts.values.expr(v)) for v in test.op.inputs[:2])
    ]


def _divides(facts: Facts, side: Expr) -> bool:
    """A remainder of an extent by the extent of a tile."""
    atom = side.atom
    if atom is None or atom.kind is not AtomKind.MOD:
        return False
    extent, tile = (_names(expr) for expr in atom.args)
    return bool(tile & facts.tile_extents) and bool(extent) and not extent & facts.tile_extents


def _names(expr: Expr) -> set[str]:
    return {a.value for a in expr.atoms() if a.kind in (AtomKind.PARAMETER, AtomKind.EXTENT)}
