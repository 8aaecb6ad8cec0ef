"""Whole rounds without a test, and what is left over under a branch behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ir import Span
from kb.ops import OpKind

_VALUE = "whole rounds, and the rest under a branch"
_MOVING = (OpKind.LOAD, OpKind.STORE)
_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)

_ROUNDS = """__global__ void scale(const float* x, float* out, float by, int n) {
    int rounds = n / blockDim.x;
    int last = rounds * blockDim.x + threadIdx.x;
    for (int i = 0; i < rounds; i++)
        out[i * blockDim.x + threadIdx.x] = by * x[i * blockDim.x + threadIdx.x];
    if (last < n) out[last] = by * x[last];
}
"""
_TWO_LOOPS = """__global__ void scale(const float* x, float* out, float by, int n) {
    int whole = n / 4;
    for (int i = threadIdx.x; i < whole; i += blockDim.x)
        for (int k = 0; k < 4; ++k) out[4 * i + k] = by * x[4 * i + k];
    for (int i = 4 * whole + threadIdx.x; i < n; i += blockDim.x) out[i] = by * x[i];
}
"""


class RestAfterRounds(Pattern):
    """A loop of threads goes through as many whole rounds as a division of the extent gives; behind
    it the same arrays are touched under a branch, or in a loop, from where the rounds end."""

    name = "rest-under-a-branch-behind-whole-rounds"
    axis = "tail_handling"
    source = "Intel, Optimization Reference Manual: a peeled remainder behind the main loop"
    matches = (Case(_ROUNDS, _VALUE), Case(_TWO_LOOPS, _VALUE))
    near_misses = (
        NearMiss(_ROUNDS.replace("if (last < n) ", ""), why="nothing is asked behind the rounds"),
        NearMiss(_ROUNDS.replace("last < n", "n < 8"), why="no place behind the rounds is asked"),
        NearMiss(
            _ROUNDS.replace("n / blockDim.x", "n").replace("rounds * blockDim.x", "rounds"),
            why="rounds are counted, the extent is not divided",
        ),
        NearMiss(_TWO_LOOPS.replace("i = 4 * whole + ", "i = "), why="all elements once more"),
        NearMiss(ADD_THREADS, why="no rounds"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        arrays = {a.node.op.span: a.array for a in facts.accesses if a.array is not None}
        for loop in facts.thread_loops:
            quotients = set(_quotients(facts, loop))
            touched = _touched(facts, loop.node, arrays)
            for rest in _behind(facts, loop, quotients) if quotients and touched else ():
                if touched & _touched(facts, rest, arrays):
                    yield self.decide(facts, _VALUE, [loop.node.head, rest])


def _quotients(facts: Facts, loop: Loop) -> Iterator[Atom]:
    """Divisions of what the problem gives that say how many rounds there are."""
    for atom in facts.thread_values.expr(loop.high).top() if loop.high else ():
        if atom.kind is AtomKind.FLOOR_DIV and atom.args[0].has(
            AtomKind.PARAMETER, AtomKind.EXTENT, AtomKind.LOADED
        ):
            yield atom


def _behind(facts: Facts, loop: Loop, quotients: set[Atom]) -> Iterator[Node]:
    """Branches and loops behind a loop that begin where its rounds end."""
    graph, values = facts.threads, facts.thread_values
    for node in graph.of(OpKind.IF, *LOOPS):
        if node.index <= loop.node.last or node.parent is not loop.node.parent:
            continue
        asked: tuple[str, ...]
        if node.op.kind == OpKind.IF:
            test = graph.producer(node.op.inputs[0])
            asked = test.op.inputs[:2] if test is not None and test.op.kind in _ORDERED else ()
        else:
            other = _loop(facts, node)
            asked = (other.low or "", other.high or "") if other is not None else ()
        both = [values.expr(v) for v in asked]
        if any(_from_there(begin, end, quotients) for begin, end in pairwise((*both, *both[:1]))):
            yield node


def _from_there(begin: Expr, end: Expr, quotients: set[Atom]) -> bool:
    """Whether one side begins where so many rounds end, and the other is what was divided."""
    counted = quotients & {*begin.atoms()}
    return any({*end.top()} & {*one.args[0].atoms()} for one in counted)


def _loop(facts: Facts, node: Node) -> Loop | None:
    """The loop of a node of the program of one thread."""
    return next((one for one in facts.thread_loops if one.node is node), None)


def _touched(facts: Facts, around: Node, arrays: dict[Span, str]) -> set[str]:
    inside = (n.op.span for n in facts.threads.within(around) if n.op.kind in _MOVING)
    return {arrays[span] for span in inside if span in arrays}
