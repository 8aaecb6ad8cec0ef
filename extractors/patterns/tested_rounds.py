"""Loops of threads that run past what there is, with a test in every round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_VALUE = "full extent, tested inside"
_ROUNDS = """__global__ void twice(const float* x, float* out, int wide, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        int at = i * blockDim.x + threadIdx.x;
        if (at < wide) out[blockIdx.x * wide + at] = x[blockIdx.x * wide + at] * 2.f;
    }
}
"""
_PADDED = """__global__ void fill(const float* x, float* out, int rows, int wide) {
    int all = (rows + 127) / 128 * 128;
    for (int row = blockIdx.x; row < all; row += gridDim.x) {
        float v = 0.f;
        if (row < rows) v = x[row * wide + threadIdx.x];
        out[row * wide + threadIdx.x] = v;
    }
}
"""
_ORDERS = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_PLACES = (AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION, AtomKind.OPAQUE)


class TestedRounds(Pattern):
    """A loop whose number of rounds is known at run time holds accesses under a comparison of what
    its rounds count with an extent that is not the loop's end."""

    name = "rounds-past-the-end-tested-inside"
    axis = "loop_extent"
    source = "NVIDIA, CUDA C++ Programming Guide: bounds checks in kernels"
    matches = (Case(_ROUNDS, _VALUE), Case(_PADDED, _VALUE))
    near_misses = (
        NearMiss(_ROUNDS.replace("if (at < wide) ", ""), why="no test"),
        NearMiss(_ROUNDS.replace("i < rounds", "i < 4"), why="so many rounds are compiled in"),
        NearMiss(_ROUNDS.replace("at < wide)", "i < rounds)"), why="the test is the loop's end"),
        NearMiss(_ROUNDS.replace("at < wide)", "at < blockIdx.x)"), why="a position"),
        NearMiss(_ROUNDS.replace("at < wide)", "threadIdx.x < wide)"), why="the thread is asked"),
        NearMiss(
            _ROUNDS.replace("i < rounds", "i < (wide + blockDim.x - 1) / blockDim.x"),
            why="no round is past the end",
        ),
        NearMiss(_PADDED.replace("row < all", "row < rows"), why="the test is the loop's end"),
        NearMiss(ROW_NORM_THREADS, why="each thread's loop ends with the row"),
        NearMiss(ADD_THREADS, why="no loop"),
        NearMiss(ADD_POINTER, why="tiles, not threads"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        found: list[Where] = []
        for loop in facts.rolled_loops:
            if _counted(facts, loop):
                tests = [*dict.fromkeys(_tests(facts, loop))]
                found += [loop.node, *tests] if tests else []
        if found:
            yield self.decide(facts, _VALUE, found)


def _counted(facts: Facts, loop: Loop) -> bool:
    """Whether a loop counts to what is known at run time, other than the tiles of an extent, of
    which the last alone is partly past the end."""
    if loop.induction is None or loop.high is None:
        return False
    high = facts.values.expr(loop.high)
    whole = high.atom is not None and high.atom.kind is AtomKind.CEIL_DIV
    return high.constant is None and not whole and not facts.values.compile_time(high)


def _tests(facts: Facts, loop: Loop) -> Iterator[Node]:
    """Comparisons that accesses of a loop stand under, of its rounds with an extent."""
    conditions: dict[str, None] = {}
    for access in (a for a in facts.accesses if a.node.inside(loop.node)):
        guards = [n for n in facts.guards(access.node) if n.inside(loop.node)]
        given = [access.mask, *(n.op.inputs[0] for n in guards)]
        conditions |= dict.fromkeys(c for c in given if c is not None)
    for test in (t for c in conditions for t in comparisons(facts, c)):
        one, other = sides(facts, test)
        past = _past(facts, one, other, loop) or _past(facts, other, one, loop)
        if test.op.kind in _ORDERS and past:
            yield test


def _past(facts: Facts, place: Expr, extent: Expr, loop: Loop) -> bool:
    """Whether a place goes along with the rounds, and the extent is another than the loop's."""
    counts = facts.values.expr(loop.induction).atom
    known = extent.has(AtomKind.PARAMETER, AtomKind.EXTENT, AtomKind.LOADED)
    return (
        counts in {*place.top()}
        and known
        and not extent.has(*_PLACES)
        and extent != facts.values.expr(loop.high)
    )
