"""A running mean and a running sum of squared differences from it."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, ROW_NORM_CHUNKS
from extractors.patterns.cases_rows_threads import ROW_NORM_CHUNKS_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Carried, Loop
from kb.evidence import Decision
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
@triton.jit
def spread(x, out, n, T: tl.constexpr):
    mean = tl.zeros([T], tl.float32)
    square = tl.zeros([T], tl.float32)
    lane = tl.arange(0, T)
    for i in range(n):
        v = tl.load(x + i * T + lane)
        keep = v > 0.0
        new = tl.where(keep, mean + (v - mean) / (i + 1), mean)
        square = tl.where(keep, square + (v - new) * (v - mean), square)
        mean = new
    tl.store(out + lane, square / n)
"""
)
_TILE = (
    TILE
    + """
@ct.kernel
def spread(x, out, n: int, T: Int):
    mean = ct.full((T,), 0.0, dtype=ct.float32)
    square = ct.full((T,), 0.0, dtype=ct.float32)
    for i in range(n):
        v = ct.load(x, index=(i,), shape=(T,))
        off = v - mean
        mean = mean + off / (i + 1)
        square = square + off * (v - mean)
    ct.store(out, index=(0,), tile=square / n)
"""
)
_THREADS = """__global__ void spread(const float* x, float* out, int n) {
    float mean = 0.f, square = 0.f;
    for (int i = 0; i < n; ++i) {
        float off = x[threadIdx.x * n + i] - mean;
        mean += off / (i + 1);
        square += off * (x[threadIdx.x * n + i] - mean);
    }
    out[threadIdx.x] = square / n;
}
"""


class WelfordRunning(Pattern):
    """A loop shifts a mean by a share of the difference from it, and adds the product of the
    differences from the old and the new mean to a sum."""

    name = "variance-from-a-running-mean"
    axis = "variance_algorithm"
    source = "Welford, Note on a Method for Calculating Corrected Sums of Squares (1962)"
    matches = (Case(_POINTER, "Welford"), Case(_TILE, "Welford"), Case(_THREADS, "Welford"))
    near_misses = (
        NearMiss(
            vary(_POINTER, ("(v - new) * (v - mean)", "v * v")), why="plain squares are summed"
        ),
        NearMiss(
            vary(_TILE, ("mean = mean + off / (i + 1)", "mean = mean + v")),
            why="the values themselves are summed",
        ),
        NearMiss(
            _THREADS.replace("mean += off / (i + 1);", "mean = x[threadIdx.x];"),
            why="no mean is shifted",
        ),
        NearMiss(LAYER_NORM_POINTER, why="the mean is known before the differences"),
        NearMiss(ROW_NORM_CHUNKS, why="sums of squares"),
        NearMiss(ROW_NORM_CHUNKS_THREADS, why="sums of squares"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            for mean in loop.carried if len(loop.carried) > 1 else ():
                off = [
                    n
                    for n in facts.graph.of(OpKind.SUB)
                    if n.inside(loop.node) and facts.graph.core(n.op.inputs[1]) == mean.argument
                ]
                shifted = [n for o in off for n in self._grows(facts, loop, mean, o)]
                others = [c for c in loop.carried if c is not mean] if shifted else []
                added = [
                    n
                    for c in others
                    for o in off
                    for n in self._grows(facts, loop, c, o)
                    if self._squares(facts, n, c)
                ]
                if added:
                    yield self.decide(facts, "Welford", [*off, *shifted, *added])
                    return

    def _grows(self, facts: Facts, loop: Loop, state: Carried, by: Node) -> list[Node]:
        """Additions to a state of something that rests on a difference."""
        return [
            n
            for n in facts.graph.roots(state.next, OpKind.ADD, OpKind.FMA)
            if n.inside(loop.node)
            and state.argument in {facts.graph.core(v) for v in n.op.inputs}
            and facts.graph.rests_on(n.result, by)
        ]

    def _squares(self, facts: Facts, node: Node, state: Carried) -> bool:
        """What is added is a product of two differences."""
        rest = [v for v in node.op.inputs if facts.graph.core(v) != state.argument]
        if node.op.kind == OpKind.ADD:
            made = facts.graph.producer(facts.graph.core(rest[0])) if rest else None
            rest = (
                list(made.op.inputs[:2]) if made is not None and made.op.kind == OpKind.MUL else []
            )
        kinds = [facts.graph.kind_of(facts.graph.core(v)) for v in rest]
        return len(kinds) == 2 and all(kind == OpKind.SUB for kind in kinds)
