"""Elements on one side of a diagonal, kept without a product or a softmax around."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM, SOFTMAX
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.idioms import LARGE, comparisons, masks, sides
from kb.analysis.symbolic import AtomKind, sub
from kb.evidence import Decision
from kb.ops import OpKind

_ORDERED = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
_SET = "one side of the diagonal, the rest set to a number"
_MULTIPLIED = "multiplied by the comparison"
_PLACES = frozenset({AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION})
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


class SideOfADiagonal(Pattern):
    """What was loaded, or computed from it, is kept where one position is not above another one,
    of which none is an extent; elsewhere a number takes its place, or it is multiplied with the
    comparison."""

    name = "one-side-of-a-diagonal-element-by-element"
    axis = "mask_application"
    source = "LAPACK Users' Guide: triangular matrices, of which one side is referenced"
    matches = (
        Case(LOWER, _SET),
        Case(
            vary(LOWER, ("v, 0.0", 'v, -float("inf")')),
            _SET,
        ),
        Case(_LOWER_TILE, _MULTIPLIED),
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
        NearMiss(ATTENTION, why="scores of an attention: told there"),
        NearMiss(PRODUCT, why="nothing is masked"),
        NearMiss(ADD_POINTER, why="nothing is masked"),
        NearMiss(SOFTMAX, why="padding alone"),
        NearMiss(ROW_NORM, why="nothing is masked"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for value, where in kept_sides(facts).items():
            yield self.decide(facts, value, where)


def kept_sides(facts: Facts) -> dict[str, list[Node]]:
    """What keeps one side of a diagonal, by how it does: a select, or a cast comparison with the
    product that takes it in."""
    tests = {n.result for n in facts.graph.of(*_ORDERED) if _diagonal(facts, n)}
    if not tests or facts.of_threads:
        return {}
    told = {mask.node for mask in masks(facts)}
    found: dict[str, list[Node]] = {}
    for node in facts.graph.of(OpKind.SELECT):
        if node not in told and _asks(facts, node.op.operand("condition"), tests):
            if _filled(facts, node) and facts.stored_in(node.result):
                found.setdefault(_SET, []).append(node)
    for node in facts.graph.of(OpKind.MUL):
        for this, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            cast = facts.graph.producer(facts.graph.plain(this))
            if cast is not None and cast.op.kind in CASTS and cast.op.inputs[0] in tests:
                if facts.feeding(other):
                    found.setdefault(_MULTIPLIED, []).extend((cast, node))
    return found


def _filled(facts: Facts, node: Node) -> bool:
    """One side is zero or as good as minus infinity, the other one rests on a load."""
    ends = [node.op.operand(role) or "" for role in ("x", "y")]
    numbers = [facts.number(end) for end in ends]
    return any(
        number is not None and (number == 0 or number <= -LARGE) and bool(facts.feeding(kept))
        for number, kept in zip(numbers, reversed(ends), strict=True)
    )


def _asks(facts: Facts, condition: str | None, tests: set[str]) -> bool:
    return any(n.result in tests for n in comparisons(facts, condition))


def _diagonal(facts: Facts, test: Node) -> bool:
    """Two places are compared, one of them of a lane: no extent, no loaded number, no constant
    edge."""
    left, right = sides(facts, test)
    apart = sub(left, right)
    if not apart.has(AtomKind.LANE):
        return False
    places = {a for factors, _ in apart.terms for a in factors if a.kind in _PLACES}
    whole = all(any(a.kind in _PLACES for a in f) for f, _ in apart.terms if f)
    return whole and len(places) > 1 and right.has(*_PLACES) and left.has(*_PLACES)
