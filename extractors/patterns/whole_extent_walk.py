"""Loops over the whole of an extent: of a row or of what a product sums over."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_bounds import ALL
from extractors.patterns.cases_rows import SOFTMAX, SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import SCALED_ROWS_POINTER, SOFTMAX_CHUNKS_POINTER
from extractors.patterns.cases_rows_threads import ROW_NORM_CHUNKS_THREADS
from extractors.patterns.fixed_trip_count import FixedTripCount
from extractors.patterns.loaded_tile_count import LOADED_COUNT
from extractors.patterns.loop_bounds_clipped import masked_keys
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role, falling, limits, persistent
from kb.analysis.own_walks import rounds_counted
from kb.analysis.rounds import checked_in, goes_along
from kb.analysis.splits import pieces
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr, mul
from kb.analysis.tile_search import tile_searches
from kb.evidence import Decision
from kb.ops import OpKind

MASKED = "full extent + mask"
_DOUBLED = (
    TILE
    + """
@ct.kernel
def double(x, out, COLS: Int, T: Int):
    row = ct.bid(0)
    for j in range(ct.cdiv(COLS, T)):
        v = ct.load(x, index=(row, j), shape=(1, T))
        ct.store(out, index=(row, j), tile=v + v)
"""
)
_OPEN = vary(ALL, (", mask=cols[:, None] < size, other=0.0", ""))
_DOWN = vary(SOFTMAX_CHUNKS_POINTER, ("range(0, N, T)", "range(tl.cdiv(N, T) * T - T, -T, -T)"))
_GROWING = (Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM, Role.RUNNING_MINIMUM)
_NUMBERS = (
    POINTER
    + """
@triton.jit
def largest(parts, out, n):
    own = tl.program_id(0)
    top = 0.0
    for i in range(n):
        top = tl.maximum(top, tl.load(parts + own * n + i))
    tl.store(out + own, top)
"""
)
_FIXED = "fixed cdiv(LEN,TILE) + mask"


class WholeExtentWalk(Pattern):
    """A loop whose number of rounds no block id and no loaded number clips: accesses are checked in
    every round, a product is summed, or what is read goes along with the rounds."""

    name = "loop-over-the-whole-extent"
    axis = "loop_extent"
    source = "Triton documentation, fused softmax and matrix multiplication tutorials"
    matches = (
        Case(SOFTMAX_CHUNKS, MASKED),
        Case(SOFTMAX_CHUNKS_POINTER, MASKED),
        Case(PRODUCT_POINTER, MASKED),
        Case(PRODUCT, "full extent"),
        Case(SCALED_ROWS_POINTER, _FIXED),
        Case(_DOUBLED, "full extent"),
        Case(_OPEN, "full extent"),
        Case(_DOWN, MASKED),
        Case(_NUMBERS, "full extent"),
    )
    near_misses = (
        NearMiss(ALL, why="the keys past the end are masked, which the clipped bounds tell"),
        NearMiss(
            vary(_DOUBLED, ("index=(row, j)", "index=(row * ct.cdiv(COLS, T) + j, 0)")),
            why="every block takes as many tiles of one axis",
        ),
        NearMiss(SOFTMAX, why="the loop goes over rows that are the block's own"),
        NearMiss(ATTENTION, why="the end is clipped by the mask"),
        NearMiss(LOADED_COUNT, why="which tiles there are is what a loaded size decides"),
        NearMiss(
            vary(SOFTMAX_CHUNKS_POINTER, ("range(0, N, T)", "range(0, tl.load(x + row), T)")),
            why="the end is loaded",
        ),
        NearMiss(
            vary(SCALED_ROWS_POINTER, ("range(PER)", "range(tl.minimum(PER, n - first))")),
            why="the end is clipped to what is left",
        ),
        NearMiss(
            vary(SCALED_ROWS_POINTER, ("mask=at < n, other=0.0", "mask=cols < n"), ("mask=at < n", "mask=cols < n")),  # noqa: E501
            why="no round is checked",
        ),
        NearMiss(vary(_NUMBERS, ("range(n)", "range(tl.load(parts))")), why="the end is loaded"),
        NearMiss(ROW_NORM_CHUNKS_THREADS, why="each thread's loop ends with the row"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        for value, where in walked(facts).items():
            yield self.decide(facts, value, where)


def walked(facts: Facts) -> dict[str, list[Where]]:
    """Loops over the whole of an extent with what is checked in them, by the value of the axis."""
    if facts.of_threads or not facts.loops:
        return {}
    found: dict[str, list[Where]] = {}
    parts = {piece.loop for piece in pieces(facts)} if facts.contractions else set()
    if parts and any(FixedTripCount().seen(facts)):
        return {}
    for loop in facts.rolled_loops:
        if not _plain(facts, loop):
            continue
        if any(p.inside(loop.node) for p in facts.score_products) and masked_keys(facts, loop):
            continue
        checks = checked_in(facts, loop)
        own = loop in parts or _own(facts, loop, checks)
        summed = any(p.loop is loop.node for p in facts.contractions)
        if summed and not own and _of_a_walk(facts, loop):
            continue
        if own and (checks or loop in parts):
            value = _FIXED if checks else "the whole piece"
        elif loop in facts.item_loops or not (checks or summed or _along(facts, loop)):
            continue
        else:
            value = MASKED if checks else "full extent"
        found.setdefault(value, []).extend((loop.node, *rounds_counted(facts, loop), *checks))
    return found


def _plain(facts: Facts, loop: Loop) -> bool:
    """A loop from zero to what neither a block id nor a loaded number clips, known at run time or
    by a parameter."""
    if loop.high is None or persistent(loop, facts.values):
        return False
    low, high = (facts.values.expr(v) for v in limits(loop, facts.values))
    clips = (AtomKind.BLOCK, AtomKind.LOADED, AtomKind.OPAQUE, AtomKind.MINIMUM, AtomKind.BLOCKS)
    if high.has(*clips) or high.constant:
        return False
    if falling(loop, facts.values):
        return low == facts.values.expr(loop.step)
    return loop.low is None or low.constant is not None


def _of_a_walk(facts: Facts, loop: Loop) -> bool:
    """True inside a walk over tiles of problems whose sizes are loaded, or one after the other, or
    that each look for their problem: which tiles there are is what the walk's own end decides,
    every product sums all there is."""
    around = [x for x in facts.loops if x is not loop and loop.node.inside(x.node)]
    if any(search.loop.node.inside(x.node) for x in around for search in tile_searches(facts)):
        return True
    ends = [facts.values.expr(x.high) for x in around if x.high is not None]
    return any(
        x.node.op.kind == OpKind.WHILE or any(e.has(AtomKind.LOADED) for e in ends) for x in around
    )


def _along(facts: Facts, loop: Loop) -> bool:
    """True when the rounds go along an axis of what is read, tile by tile, and no block id says
    where in it they begin."""
    step = facts.values.expr(loop.induction).atom
    if step is None:
        return False
    by = facts.values.expr(loop.step) if loop.step is not None else ONE
    rounds = facts.values.expr(loop.high)
    if _number_by_number(facts, loop, step):
        return True
    return any(
        step in set(index.top())
        and (
            goes_along(index, step, by) or (a.mode is Mode.TILE and index.coefficient(step) == ONE)
        )
        and not _begun(index, index.coefficient(step), rounds)
        for a in facts.loads
        if a.loop is loop.node and set(facts.types.shape(a.value)) - {"1"}
        for index in a.index
    )


def _number_by_number(facts: Facts, loop: Loop, step: Atom) -> bool:
    """True when every round reads one number, for what the loop carries on and a store takes."""
    carried = [c for c in loop.of(*_GROWING) if facts.stored_in(c.result)]
    return any(
        step in set(index.top()) and any(facts.graph.rests_on(c.next, a.node) for c in carried)
        for a in facts.loads
        if a.loop is loop.node and not facts.types.shape(a.value)
        for index in a.index
    )


def _begun(index: Expr, by: Expr, rounds: Expr) -> bool:
    """True when a block id counts pieces of so many rounds."""
    piece = mul(by, rounds)
    return any(a.kind is AtomKind.BLOCK and index.coefficient(a) == piece for a in index.top())


def _own(facts: Facts, loop: Loop, checks: Iterable[Node]) -> bool:
    """Positions that are checked begin where the block id says, so many as the loop has rounds."""
    rounds = facts.values.expr(loop.high)
    return any(
        side.coefficient(atom) == rounds
        for n in checks
        if len(n.op.inputs) > 1
        for side in (facts.values.expr(v) for v in n.op.inputs[:2])
        for atom in side.top()
        if atom.kind is AtomKind.BLOCK
    )
