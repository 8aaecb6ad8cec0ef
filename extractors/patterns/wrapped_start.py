"""Loops over a whole ring of places, each thread or block from a start of its own."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.symbolic import AtomKind, Expr, sub
from kb.evidence import Decision
from kb.ops import OWN_THREAD, READS, WRITES, OpKind

_SKEWED = """__global__ void sums(const float* x, float* out) {
    __shared__ float part[32][32];
    part[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    float sum = 0.f;
    for (int k = 0; k < 32; ++k) sum += part[threadIdx.x][(k + threadIdx.x) % 32];
    out[threadIdx.y * 32 + threadIdx.x] = sum;
}
"""
_RING = """template <int Rank, int World>
__global__ void push(const float* x, float* const* to, int n) {
    for (int pass = 1; pass < World; ++pass) {
        int peer = (Rank + pass) % World;
        to[peer][threadIdx.x] = x[peer * n + threadIdx.x];
    }
}
"""
_OWN = frozenset({*OWN_THREAD, OpKind.BLOCK_ID})


class WrappedStart(Pattern):
    """A loop goes as often round as there are places; its variable plus an own number, modulo that
    count, addresses memory."""

    name = "places-of-a-loop-wrapped-from-an-own-start"
    axis = "index_derivation"
    source = "NVIDIA, CUDA C++ Best Practices Guide, shared memory and memory banks"
    matches = (
        Case(_SKEWED, "wrapped from the own start"),
        Case(_RING, "wrapped from the own start"),
    )
    near_misses = (
        NearMiss(
            vary(_SKEWED, ("(k + threadIdx.x) % 32", "k % 32")), why="all begin at the same place"
        ),
        NearMiss(
            vary(_SKEWED, ("(k + threadIdx.x) % 32", "(k + threadIdx.x) % 4")),
            why="the places are gone round several times: stages",
        ),
        NearMiss(
            vary(_RING, ("(Rank + pass) % World", "(Rank * World + pass)")), why="nothing wraps"
        ),
        NearMiss(PRODUCT_THREADS, why="nothing wraps"),
        NearMiss(ADD_THREADS, why="no loop"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        graph = facts.threads
        wrapped = [n for n in graph.of(OpKind.MOD) if n.loops and _round(facts, n)]
        if not wrapped:
            return
        touching = [n for n in graph.of(*READS, *WRITES) if n.op.operand("pointer")]
        found: list[Where] = []
        for node in wrapped:
            used = [t for t in touching if graph.rests_on(t.op.operand("pointer"), node)]
            found += [node, *used] if used else []
        if found:
            yield self.decide(facts, "wrapped from the own start", found)


def _round(facts: Facts, node: Node) -> bool:
    """Whether a remainder is taken of a loop's variable and an own start, by the loop's rounds."""
    values = facts.thread_values
    over, under = (values.expr(v) for v in node.op.inputs[:2])
    given = any(a.kind is AtomKind.PARAMETER and a not in under.top() for a in over.top())
    above = facts.threads.upstream(node.op.inputs[0], lambda n: n.op.kind in READS)
    own = given or any(n.op.kind in _OWN for n in above)
    return own and any(_once_round(facts, loop, over, under) for loop in node.loops)


def _once_round(facts: Facts, loop: Node, over: Expr, under: Expr) -> bool:
    values, graph = facts.thread_values, facts.threads
    if loop.op.kind != OpKind.FOR:
        return False
    walked = graph.producer(graph.through(loop.op.inputs[0], COPIES | CASTS))
    if walked is None or not walked.op.operand("high"):
        return False
    low, high = (values.expr(walked.op.operand(role)) for role in ("low", "high"))
    step = values.expr(loop.op.regions[-1].arguments[0].name)
    return under in (high, sub(high, low)) and step.atom is not None and step.atom in over.top()
