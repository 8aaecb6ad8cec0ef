"""A walk over all members of a group that begins with the walker's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind, Expr, number, of, sub
from kb.evidence import Decision
from kb.ops import ATOMICS, COMPARISONS, OWN_THREAD, READS, WRITES, OpKind

_CIRCLES = (OpKind.MOD, OpKind.SELECT, OpKind.IF)
_GATHER = """template <int N> __global__ void gather(float** peers, float* out, int own, int part) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int i = 0; i < N; i++) {
        int from = (own + i) % N;
        if (at < part) out[from * part + at] = peers[from][at];
    }
}
"""
_PUSHED = """template <int N, int OWN> __global__ void push(const float* x, float* to, long part) {
    long at = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 1; i < N; ++i) {
        const int other = (OWN + i) % N;
        to[other * part + at] = x[other * part + at];
    }
}
"""
_COMPARED = _GATHER.replace("(own + i) % N;", "own + i;\n        if (from >= N) from -= N;")
_CHOSEN = _GATHER.replace("(own + i) % N;", "own + i < N ? own + i : own + i - N;")
_STEPPED = """__global__ void gather(float** peers, float* out, int own, int n, int part) {
    int from = own;
    for (int i = 0; i < n; ++i) {
        out[from * part + threadIdx.x] = peers[from][threadIdx.x];
        from = from == 0 ? n - 1 : from - 1;
    }
}
"""


class CircularWalk(Pattern):
    """The rounds of a loop, as many as there are members, find each by the sum of a number that is
    the same for all threads and of the round, in a circle; what is found is read or written."""

    name = "walk-in-a-circle-from-the-own-place"
    axis = "rasterization"
    source = "NVIDIA, NCCL documentation: rings"
    matches = (
        Case(_GATHER, "in a circle from the own place"),
        Case(_PUSHED, "in a circle from the own place"),
        Case(_COMPARED, "in a circle from the own place"),
        Case(_CHOSEN, "in a circle from the own place"),
        Case(_STEPPED, "in a circle from the own place"),
    )
    near_misses = (
        NearMiss(_GATHER.replace("(own + i) % N", "i"), why="all begin with the first"),
        NearMiss(_STEPPED.replace("from = own", "from = 0"), why="all begin with the first"),
        NearMiss(
            _GATHER.replace("(own + i) % N", "(threadIdx.x + i) % N"),
            why="every thread has its own beginning: the banks of shared memory",
        ),
        NearMiss(
            _GATHER.replace("i < N", "i < part").replace("(own + i) % N", "(own + i) % 4"),
            why="the stages of a ring, used again and again",
        ),
        NearMiss(
            _GATHER.replace("from * part + at] = peers[from][at]", "i * part + at] = from * 1.f"),
            why="the number is stored, nothing is found with it",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        found: list[Where] = []
        for loop in facts.thread_loops:
            inside = [n for n in facts.threads.of(*_CIRCLES) if n.inside(loop.node)]
            turned = [n for n in inside if _turned(facts, loop, n)] + _stepped(facts, loop)
            if turned:
                found += [loop.node.head, *turned]
        if found:
            yield self.decide(facts, "in a circle from the own place", found)


def _turned(facts: Facts, loop: Loop, node: Node) -> bool:
    """Whether a number goes round in a circle of as many as the loop has rounds, or of one more,
    from where all threads begin."""
    turn = facts.thread_values.expr(loop.induction).atom if loop.induction else None
    if turn is None or loop.high is None or facts.threads.roots(node.result, *OWN_THREAD):
        return False
    rounds = facts.thread_values.expr(loop.high)
    for at, count in _circles(facts, node):
        own = [a for a in at.top() if a != turn and of(a) != count]
        if (
            at.coefficient(turn).constant in (1, -1)
            and sub(count, rounds).constant in (0, 1)
            and own
            and not any(a.kind in (AtomKind.LANE, AtomKind.INDUCTION) for a in own)
            and _finds(facts, loop, node.result)
        ):
            return True
    return False


def _circles(facts: Facts, node: Node) -> Iterator[tuple[Expr, Expr]]:
    """A number and the count that it stays below: of a remainder, or of a choice between the number
    and the same less the count."""
    expr = facts.thread_values.expr
    if node.op.kind == OpKind.MOD:
        yield expr(node.op.inputs[0]), expr(node.op.inputs[1])
        return
    tests = facts.threads.roots(node.op.inputs[0], *COMPARISONS)
    bounds = [expr(v) for test in tests for v in test.op.inputs[:2]]
    for one, other in _sides(facts, node):
        for above, below in ((one, other), (other, one)):
            if sub(above, below) in bounds and above in bounds:
                yield above, sub(above, below)


def _sides(facts: Facts, node: Node) -> Iterator[tuple[Expr, Expr]]:
    """What a choice takes on its two sides."""
    ends = [r.terminator.inputs for r in node.op.regions if r.terminator is not None]
    pairs = [*zip(*ends, strict=False)] if len(ends) == 2 else []
    for pair in [node.op.inputs[1:3]] if node.op.kind == OpKind.SELECT else pairs:
        one, other = (facts.thread_values.expr(v) for v in pair)
        yield one, other


def _stepped(facts: Facts, loop: Loop) -> list[Node]:
    """The choices by which a number that is carried from round to round, from where all threads
    begin, goes one step on or over the end of a circle."""
    expr = facts.thread_values.expr
    if loop.high is None:
        return []
    rounds = expr(loop.high)
    found = []
    for carried in loop.carried:
        node = facts.threads.producer(carried.next)
        began = expr(carried.init)
        if node is None or node.op.kind not in (OpKind.SELECT, OpKind.IF):
            continue
        if began.constant is not None or facts.threads.roots(carried.init, *OWN_THREAD):
            continue
        place = expr(carried.argument)
        sides = {s for pair in _sides(facts, node) for s in pair}
        down = {sub(place, number(1)), sub(rounds, number(1))}, {sub(place, number(1)), rounds}
        if sides in down and _finds(facts, loop, carried.argument):
            found.append(node)
    return found


def _finds(facts: Facts, loop: Loop, value: str) -> bool:
    """Whether what is read or written in the loop is found by a number."""
    for user in facts.threads.of(*READS, *WRITES, *ATOMICS, OpKind.EXTRACT):
        held = user.op.operand("index" if user.op.kind == OpKind.EXTRACT else "pointer")
        if user.inside(loop.node) and held and facts.threads.rests_on_argument(held, value):
            return True
    return False
