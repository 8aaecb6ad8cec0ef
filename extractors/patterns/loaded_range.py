"""Places that are loaded and asked, before they are used, whether they lie in the problem."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import ATOMICS, READS, WRITES, OpKind

_SKIPPED = """__global__ void pick(const float* x, const int* ids, float* out, int n, int rows) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float sum = 0.f;
    for (int k = 0; k < 8; k++) {
        int row = ids[at * 8 + k];
        if (row < 0 || row >= rows) continue;
        sum += x[row];
    }
    out[at] = sum;
}
"""
_CHOSEN = """__global__ void pick(const float* x, const int* ids, float* out, int n, int rows) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    int row = ids[at];
    bool there = row >= 0 && row < rows;
    row = there ? row : 0;
    out[at] = there ? x[row] : 0.f;
}
"""
_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_OWN = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.LOADED, AtomKind.INDUCTION)


class LoadedRange(Pattern):
    """A thread holds a number that it loads against zero and against an extent, and that number
    places an access: what names nothing is left out."""

    name = "loaded-places-held-against-both-ends"
    axis = "boundary_handling"
    source = "mmcv, assign_score_withk_cuda_kernel.cuh: neighbours outside are skipped"
    matches = (
        Case(_SKIPPED, "loaded places outside are left out"),
        Case(_CHOSEN, "loaded places outside are left out"),
    )
    near_misses = (
        NearMiss(vary(_SKIPPED, ("row < 0 || ", "")), why="one end is asked for"),
        NearMiss(vary(_SKIPPED, ("ids[at * 8 + k]", "at * 8 + k")), why="nothing is loaded"),
        NearMiss(
            vary(_CHOSEN, ("x[row]", "x[at]"), ("row = there ? row : 0;", "")),
            why="a mark of the item, and no place",
        ),
        NearMiss(ADD_THREADS, why="the own place is asked for"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        below: dict[Expr, list[Node]] = {}
        above: dict[Expr, list[Node]] = {}
        for test in facts.threads.of(*_ORDERED) if facts.of_threads else ():
            left, right = (facts.thread_values.expr(v) for v in test.op.inputs[:2])
            for own, other in ((left, right), (right, left)):
                if own.atom is not None and own.atom.kind is AtomKind.LOADED:
                    if other.constant in (0, -1):
                        below.setdefault(own, []).append(test)
                    elif other.constant is None and not other.has(*_OWN):
                        above.setdefault(own, []).append(test)
        both = [own for own in below if own in above and _places(facts, own)]
        if both:
            shown = [test for own in both for test in (*below[own], *above[own])]
            yield self.decide(facts, "loaded places outside are left out", shown)


def _places(facts: Facts, own: Expr) -> bool:
    """Whether an access goes where a loaded number says."""
    graph = facts.threads
    made = graph.producer(own.atom.value) if own.atom is not None else None
    touching = graph.of(*READS, *WRITES, *ATOMICS, OpKind.ASYNC_COPY)
    return made is not None and any(
        graph.rests_on(n.op.operand("pointer") or next(iter(n.op.inputs), ""), made)
        for n in touching
        if n is not made
    )
