"""Positions outside the array are led to a place inside it, so that loads need no mask."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import comparisons
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OWN_THREAD, READS, OpKind

_LOOPS = frozenset({OpKind.RANGE, OpKind.WHILE})

_LED = vary(
    PRODUCT_POINTER,
    ("    k = tl.arange(0, TK)\n", "    m = tl.where(m < M, m, 0)\n    k = tl.arange(0, TK)\n"),
)
_LED_TILE = vary(
    ROW_NORM,
    (
        "ct.gather(x, (row, at), check_bounds=inside",
        "ct.gather(x, (row, ct.where(at < N, at, 0)), check_bounds=False",
    ),
)
_OUTSIDE = "redirected to an index outside, padded"
_OUT_TILE = vary(_LED_TILE, ("at, 0)), check_bounds=False", "at, N)), check_bounds=True"))
_LED_THREADS = vary(
    PRODUCT_THREADS,
    ("int m = blockIdx.y * T + threadIdx.y;", "int m = blockIdx.y * T + threadIdx.y;\n    int p = m < M ? m : 0;"),  # noqa: E501
    ("a[m * K", "a[p * K"),
)  # fmt: skip


_LAST = vary(_LED, ("tl.where(m < M, m, 0)", "tl.minimum(m, M - 1)"))
_LAST_THREADS = """__global__ void rows(const float* x, float* out, int rows, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int row = min(at, rows - 1);
    for (int i = 0; i < n; ++i) out[row * n + i] = 2.f * x[row * n + i];
}
"""


class RedirectedPositions(Pattern):
    """A select keeps a position where it is below an extent and puts zero in the place of others,
    or the smaller of a position and of the last place inside is taken; the result addresses a load.
    Or it puts a place beyond the array there, and a gather pads."""

    name = "positions-outside-redirected-inside"
    axis = "boundary_handling"
    source = "Triton documentation, Persistent Matmul tutorial: offsets past the end are set to 0"
    matches = (
        Case(_LED, "redirected to an index inside"),
        Case(vary(_LED, ("where(m < M", "where(M > m")), "redirected to an index inside"),
        Case(_LED_TILE, "redirected to an index inside"),
        Case(_LED_THREADS, "redirected to an index inside"),
        Case(_OUT_TILE, _OUTSIDE),
        Case(_LAST, "redirected to an index inside"),
        Case(_LAST_THREADS, "redirected to an index inside"),
    )
    near_misses = (
        NearMiss(
            vary(_LED, ("tl.where(m < M, m, 0)", "tl.where(m < M, m, -1)")),
            why="the other place is outside, too",
        ),
        NearMiss(
            vary(
                _LED,
                ("tl.where(m < M, m, 0)", "m"),
                ("acc += tl.dot(x, y)", "acc += tl.dot(tl.where(m[:, None] < M, x, 0.0), y)"),
            ),
            why="numbers are put out, not positions",
        ),
        NearMiss(vary(_LAST, ("M - 1", "7")), why="a table whose length is compiled in"),
        NearMiss(
            _LAST_THREADS.replace("i < n;", "i < row;").replace("row * n", "at * n"),
            why="a count of rounds",
        ),
        NearMiss(
            _LAST_THREADS.replace("int at = ", "int at = (int)x[0] + 0 * "),
            why="what was read says where, no thread lies outside",
        ),
        NearMiss(PRODUCT_POINTER, why="positions are used as they are"),
        NearMiss(ADD_POINTER, why="accesses are masked"),
        NearMiss(PRODUCT, why="views keep tiles inside"),
        NearMiss(PRODUCT_THREADS, why="positions are used as they are"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        led = [n for n in facts.graph.of(OpKind.SELECT, OpKind.IF_EXPRESSION) if _led(facts, n)]
        led += [n for n in facts.graph.of(OpKind.MINIMUM) if _held(facts, n)]
        if led:
            yield self.decide(facts, "redirected to an index inside", led)
        out = [n for load in facts.loads for n in _out(facts, load)]
        if out:
            yield self.decide(facts, _OUTSIDE, out)


def _out(facts: Facts, load: Access) -> list[Node]:
    """Selects that give lanes of a gather a place beyond the array, where padding is read."""
    ends = [
        end
        for value in facts.values.items(load.node.op.operand("index"))
        for end in facts.graph.ends(value, VIEWS | CASTS)
        if load.mode is Mode.ELEMENT and load.padding and end.op.kind == OpKind.SELECT
    ]
    others = {n: facts.values.expr(n.op.operand("y")) for n in ends}
    chosen = [n for n, e in others.items() if e.constant == -1 or _extent(e)]
    return [*chosen, load.node] if chosen else []


def _extent(place: Expr) -> bool:
    atom = place.atom
    return atom is not None and atom.kind in (AtomKind.PARAMETER, AtomKind.EXTENT)


def _held(facts: Facts, node: Node) -> bool:
    """True for the smaller of an own position and of the last place inside, on the way to a
    load."""
    return any(
        _own(facts, place) and _last(facts.values.expr(end))
        for place, end in permutations(node.op.inputs[:2])
    ) and any(_leads(facts, node, v) for load in facts.loads for v in load.address)


def _leads(facts: Facts, node: Node, address: str) -> bool:
    """Whether a number is a part of where memory is read, not how often a loop runs that reads."""
    if not facts.graph.rests_on(address, node):
        return False
    return node in facts.graph.upstream(address, lambda n: n.op.kind in _LOOPS)


def _own(facts: Facts, place: str) -> bool:
    """Whether lanes and blocks count a position, and nothing that was read says it."""
    above = facts.graph.upstream(place, lambda n: n.op.kind in READS)
    kinds = {n.op.kind for n in above}
    return not kinds.isdisjoint((*OWN_THREAD, OpKind.ARANGE)) and not kinds & READS


def _last(end: Expr) -> bool:
    """One less than an extent."""
    counted = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION)
    given = end.has(AtomKind.PARAMETER, AtomKind.EXTENT, AtomKind.LOADED)
    return ((), -1) in end.terms and given and not end.has(*counted)


def _led(facts: Facts, node: Node) -> bool:
    """True for `position if position < extent else 0` on the way to a load."""
    tests = comparisons(facts, node.op.inputs[0])
    kept, other = node.op.operand("x"), node.op.operand("y")
    if node.op.kind == OpKind.IF_EXPRESSION:
        kept, other = (facts.graph.handed(node, side)[0] for side in (0, 1))
    place = facts.values.expr(facts.graph.through(kept, VIEWS | CASTS))
    return (
        facts.values.expr(other).constant == 0
        and place.has(AtomKind.LANE)
        and any(facts.values.expr(v) == place for test in tests for v in test.op.inputs[:2])
        and any(facts.graph.rests_on(v, node) for load in facts.loads for v in load.address)
    )
