"""Output tiles are numbered along rows or along columns."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    POINTER,
    PRODUCT,
    PRODUCT_PERSISTENT,
    PRODUCT_POINTER,
    TILE,
    vary,
)
from extractors.patterns.cases_pointer import PRODUCT_PERSISTENT_POINTER
from extractors.patterns.cases_threads import PRODUCT_PERSISTENT_THREADS, PRODUCT_THREADS
from extractors.patterns.grouped_rasterisation import GroupedRasterisation
from kb.analysis.accesses import BULK, Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.symbolic import Atom, AtomKind, mul
from kb.evidence import Decision
from kb.ops import OpKind

_ROWS = vary(
    PRODUCT_POINTER,
    ("    m = tl.program_id(0) * TM",
     "    own = tl.program_id(0)\n    m = (own // tl.cdiv(N, TN)) * TM"),
    ("    n = tl.program_id(1) * TN", "    n = (own % tl.cdiv(N, TN)) * TN"),
)  # fmt: skip
_COLUMNS = vary(
    _ROWS,
    ("m = (own // tl.cdiv(N, TN)) * TM", "m = (own % tl.cdiv(M, TM)) * TM"),
    ("n = (own % tl.cdiv(N, TN)) * TN", "n = (own // tl.cdiv(M, TM)) * TN"),
)
_TILES = vary(
    PRODUCT,
    ("TK: Int):", "TK: Int, WIDE: Int):"),
    ("    m = ct.bid(0)\n    n = ct.bid(1)\n",
     "    m = ct.bid(0) // WIDE\n    n = ct.bid(0) % WIDE\n"),
)  # fmt: skip
_THREADS = vary(
    PRODUCT_THREADS,
    ("int m = blockIdx.y * T", "int wide = (N + T - 1) / T;\n    int m = (blockIdx.x / wide) * T"),
    ("int n = blockIdx.x * T", "int n = (blockIdx.x % wide) * T"),
)
_PLANE = (
    POINTER
    + """
@triton.jit
def double(x, out, m, n, TM: tl.constexpr, TN: tl.constexpr):
    own = tl.program_id(0)
    wide = tl.cdiv(n, TN)
    rows = (own // wide) * TM + tl.arange(0, TM)
    cols = (own % wide) * TN + tl.arange(0, TN)
    at = rows[:, None] * n + cols[None, :]
    keep = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(out + at, tl.load(x + at, mask=keep) * 2.0, mask=keep)
"""
)
_WALKED = (
    TILE
    + """
@ct.kernel
def product(a, b, out, TM: Int, TN: Int, TK: Int, SIZE: Int, MANY: Int):
    row = 0
    column = 0
    begun = 0
    tiles = ct.num_tiles(out, axis=1, shape=(TM, TN))
    for one in range(MANY):
        if ct.bid(0) < begun + SIZE:
            row = (ct.bid(0) - begun) // tiles
            column = (ct.bid(0) - begun) % tiles
        begun = begun + SIZE
    acc = ct.full((TM, TN), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(TM, TK))):
        x = ct.load(a, index=(row, k), shape=(TM, TK))
        y = ct.load(b, index=(k, column), shape=(TK, TN))
        acc = ct.mma(x, y, acc)
    ct.store(out, index=(row, column), tile=ct.astype(acc, out.dtype))
"""
)
_SPLITS = (OpKind.FLOOR_DIV, OpKind.MOD)
_PARTS = (AtomKind.FLOOR_DIV, AtomKind.MOD)
_ORDERS = ([[True, False], [False, True]], [[False, True], [True, False]])


_CHUNKED = vary(_ROWS, (") * TM + tl", ") * TM + tl.program_id(1) // 4 * K + tl"))


class CountedTiles(Pattern):
    """The quotient of a tile's number by a count is its row, the remainder its column, or the other
    way round; nothing else is added to them."""

    name = "tiles-counted-along-rows-or-columns"
    axis = "rasterization"
    source = "Triton documentation, Matrix Multiplication tutorial: row-major ordering"
    matches = (
        Case(_ROWS, "row-major"),
        Case(_CHUNKED, "row-major"),
        Case(_COLUMNS, "column-major"),
        Case(_TILES, "row-major"),
        Case(_THREADS, "row-major"),
        Case(_PLANE, "row-major"),
        Case(_WALKED, "row-major"),
    )
    near_misses = (
        NearMiss(
            vary(_PLANE, ("own // wide) * TM", "own // wide) * n")),
            why="the quotient finds an image, not a tile of rows",
        ),
        NearMiss(
            vary(_WALKED, ("column = (ct.bid(0) - begun) % tiles", "column = one")),
            why="the column is no remainder",
        ),
        NearMiss(PRODUCT, why="rows and columns are two grid axes"),
        NearMiss(PRODUCT_POINTER, why="rows and columns are two grid axes"),
        NearMiss(PRODUCT_PERSISTENT, why="tiles are taken in groups of rows"),
        NearMiss(PRODUCT_PERSISTENT_POINTER, why="tiles are taken in groups of rows"),
        NearMiss(PRODUCT_PERSISTENT_THREADS, why="tiles are taken in groups of rows"),
        NearMiss(ATTENTION, why="quotient and remainder find batch and head"),
        NearMiss(PRODUCT_THREADS, why="rows and columns are two grid axes"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.score_products:
            return
        rows = facts.contractions and all(_one_axis(s) for s in facts.stores)
        for store in (*facts.stores, *(facts.loads if rows else ())):
            row, column = (
                side if len(side) < 2 else [a for a in side if _tile(store, a)]
                for side in _splits(store)
            )
            if len(row) != 1 or len(column) != 1:
                continue
            kinds = {row[0].kind, column[0].kind}
            if row[0].args != column[0].args or kinds != set(_PARTS):
                continue
            if not facts.contractions and not all(_tile(store, a) for a in (row[0], column[0])):
                continue
            if any(GroupedRasterisation().seen(facts)):
                return
            value = "row-major" if row[0].kind is AtomKind.FLOOR_DIV else "column-major"
            steps = facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
            parts = (row[0], column[0])
            made = [n for n in steps if facts.values.expr(n.result).atom in parts]
            yield self.decide(facts, value, made)
            return
        if facts.contractions:
            yield from self._carried(facts)

    def _carried(self, facts: Facts) -> Iterable[Decision]:
        """The same where branches or loops hand quotient and remainder on to the place of what is
        stored."""
        steps = [
            (facts.values.expr(n.op.inputs[0]), facts.values.expr(n.op.inputs[1]), n)
            for n in facts.graph.of(*_SPLITS)
            if not facts.types.shape(n.result)
        ]
        pairs = [
            (high, low)
            for whole, by, high in steps
            for again, width, low in steps
            if high.op.kind == OpKind.FLOOR_DIV and low.op.kind == OpKind.MOD
            if (whole, by) == (again, width) and whole.has(AtomKind.BLOCK)
        ]
        if not pairs or any(GroupedRasterisation().seen(facts)):
            return
        for store in facts.stores:
            if len(store.index) < 2 or store.mode is Mode.POINTER:
                continue
            placed = [{a.value for a in e.atoms()} & {*facts.graph.defs} for e in store.index[-2:]]
            for pair in pairs:
                rests = [
                    [any(facts.graph.rests_on(v, n) for v in values) for n in pair]
                    for values in placed
                ]
                if rests in _ORDERS:
                    value = "row-major" if rests[0][0] else "column-major"
                    yield self.decide(facts, value, pair)
                    return


def _one_axis(store: Access) -> bool:
    """True for a store by pointers along one axis: what is loaded beside it tells the tile."""
    lanes = {a.value for i in store.index for a in i.atoms() if a.kind is AtomKind.LANE}
    return store.mode is Mode.POINTER and len(lanes) < 2


def _tile(store: Access, number: Atom) -> bool:
    """True when a number counts tiles of the lanes of an address."""
    return any(
        mul(index.coefficient(lane), lane.args[0]) == index.coefficient(number)
        for index in store.index
        for lane in index.top()
        if lane.kind is AtomKind.LANE
    )


def _splits(store: Access) -> tuple[list[Atom], list[Atom]]:
    """Quotients and remainders that the row and the column of a stored tile are made of."""
    if store.mode in (*BULK, Mode.ELEMENT):
        if len(store.index) < 2:
            return [], []
        sides = [[f for f, _ in index.terms] for index in store.index[-2:]]
    elif store.mode is Mode.POINTER:
        terms = [f for f, _ in store.index[0].terms]
        lanes = {a.value: set(f) - {a} for f in terms for a in f if a.kind is AtomKind.LANE}
        if "-2" not in lanes or not lanes["-2"]:
            return [], []
        rows = [f for f in terms if lanes["-2"] <= set(f)]
        columns = [f for f in terms if f not in rows and lanes.get("-1", set()) <= set(f)]
        sides = [rows, columns]
    else:
        return [], []
    return (
        [a for f in sides[0] for a in f if a.kind in _PARTS],
        [a for f in sides[1] for a in f if a.kind in _PARTS],
    )
