"""A loop that data ends."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Node
from kb.evidence import Decision
from kb.ops import READS, REDUCTIONS, OpKind

_SAMPLED = """__global__ void draw(const float* p, int* out, float u, int n) {
    __shared__ float part[128];
    float sum = 0.f;
    int i = 0;
    for (; i < n; i += 128) {
        part[threadIdx.x] = p[blockIdx.x * n + i + threadIdx.x];
        __syncthreads();
        float all = 0.f;
        for (int j = 0; j < 128; ++j) all += part[j];
        sum += all;
        if (sum > u) break;
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = i;
}
"""


_OWN = (OpKind.THREAD_ID, OpKind.LANE_ID)


class LeftEarly(Pattern):
    """A loop holds a break under a condition that what was read in the loop decides."""

    name = "loop-left-when-the-data-says-so"
    axis = "loop_extent"
    source = "Knuth, Structured Programming with go to Statements (1974): loops with exits inside"
    matches = (Case(_SAMPLED, "left early"),)
    near_misses = (
        NearMiss(vary(_SAMPLED, ("if (sum > u)", "if (i > 4096)")), why="positions end the loop"),
        NearMiss(vary(_SAMPLED, ("if (sum > u) break;", "")), why="nothing leaves the loop"),
        NearMiss(
            vary(_SAMPLED, ("p[blockIdx.x * n + i + threadIdx.x]", "p[blockIdx.x * n + i]")),
            why="all threads look at one element: a search",
        ),
        NearMiss(PRODUCT, why="every iteration runs"),
        NearMiss(PRODUCT_POINTER, why="every iteration runs"),
        NearMiss(PRODUCT_THREADS, why="every iteration runs"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        graph = facts.threads
        found = [
            node
            for leave in graph.of(OpKind.BREAK)
            if (branch := _branch(leave)) is not None and _by_data(graph, branch)
            for node in (branch, leave)
        ]
        if found:
            yield self.decide(facts, "left early", [n.head for n in found])


def _branch(leave: Node) -> Node | None:
    """The branch that a break stands under, inside its loop."""
    parent = leave.parent
    return parent if parent is not None and parent.op.kind == OpKind.IF else None


def _by_data(graph: Graph, branch: Node) -> bool:
    """Whether a condition rests on something read or reduced in the loop that is left, where every
    thread reads elements of its own."""
    loop = branch.loop
    kinds = (*READS, *REDUCTIONS, OpKind.OPAQUE, OpKind.CUMSUM)
    roots = graph.roots(branch.op.inputs[0], *kinds)
    if loop is None or not any(n.inside(loop) for n in roots):
        return False
    streamed = [n for n in graph.of(OpKind.LOAD) if n.inside(loop)]
    return any(
        n.op.attribute("space") != "shared" and graph.roots(n.op.operand("pointer"), *_OWN)
        for n in streamed
    )
