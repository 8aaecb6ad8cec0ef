"""What a thread loaded once, or made of it, is stored by every round of a loop."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.shared_loads import STORED, SharedLoads
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Graph, Node
from kb.evidence import Decision
from kb.ops import OWN_THREAD, REDUCTIONS, OpKind

_SCATTERED = """template <int K>
__global__ void spread(const float* x, const int* rows, half* out, float by, int n) {
    int at = threadIdx.x;
    half own = __float2half(x[blockIdx.x * n + at] * by);
#pragma unroll
    for (int k = 0; k < K; ++k) {
        int row = rows[blockIdx.x * K + k];
        if (row >= 0) out[row * n + at] = own;
    }
}
"""
_PIECES = """template <int V>
__global__ void spread(const float* x, float* out, int heads, int n) {
    float held[V];
    for (int i = 0; i < V; ++i) held[i] = x[blockIdx.x * n + threadIdx.x * V + i];
    for (int h = 0; h < heads; ++h)
        for (int i = 0; i < V; ++i)
            out[(blockIdx.x * heads + h) * n + threadIdx.x * V + i] = held[i];
}
"""
_HELD = VIEWS | CASTS | {
    OpKind.EXTRACT, OpKind.VECTOR, OpKind.BITCAST, OpKind.CONST, OpKind.DTYPE, OpKind.RANGE,
    OpKind.STATIC_RANGE,
}  # fmt: skip
_TOGETHER = REDUCTIONS | {OpKind.SHUFFLE, OpKind.REDUCE}
_SUMMED = """__global__ void tell(const float* x, float* out, int ranks, int n) {
    __shared__ float parts[32];
    float sum = x[blockIdx.x * n + threadIdx.x];
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x == 0)
        for (int r = 0; r < ranks; ++r) out[r * gridDim.x + blockIdx.x] = sum;
}
"""


class StoredByRounds(Pattern):
    """A loop stores to other places in every round what rests on elements that a thread loaded
    before it, and on nothing of the round."""

    name = "rounds-that-store-what-was-loaded-once"
    axis = "load_reuse"
    source = "Hennessy and Patterson, Computer Architecture (2017), temporal locality"
    matches = (Case(_SCATTERED, STORED), Case(_PIECES, STORED))
    near_misses = (
        NearMiss(
            _SCATTERED.replace("= own;", "= __float2half(x[row * n + at]);"),
            why="every round loads its own",
        ),
        NearMiss(_SCATTERED.replace("= own;", "= own * k;"), why="every round makes its own"),
        NearMiss(_SCATTERED.replace("row * n + at", "at"), why="stored to one place over and over"),
        NearMiss(
            _SCATTERED.replace("x[blockIdx.x * n + at] * by", "by"), why="a number, of no array"
        ),
        NearMiss(_SCATTERED.replace("x[blockIdx.x * n + at]", "x[0]"), why="one number for all"),
        NearMiss(
            _PIECES.replace("(blockIdx.x * heads + h)", "blockIdx.x"),
            why="stored to the same places",
        ),
        NearMiss(_SUMMED, why="a sum of all threads is sent to several"),
        NearMiss(ROW_NORM_THREADS, why="every element is stored once"),
        NearMiss(ADD_THREADS, why="no loop"),
        NearMiss(PRODUCT_THREADS, why="a sum is stored once"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        graph, shared = facts.threads, facts.shared
        stores = [n for n in graph.of(OpKind.STORE) if n.loops and not shared.holds(n.op)]
        loads = [n for n in graph.of(OpKind.LOAD) if stores and not shared.holds(n.op)]
        own = [n for n in loads if graph.roots(n.op.operand("pointer"), *OWN_THREAD)]
        found: list[Node] = []
        for store in stores:
            for loop in store.loops:
                if fed := _of_before(graph, store, loop, own):
                    found += [*fed, loop, store]
        if found and not any(d.value == STORED for d in SharedLoads().seen(facts)):
            yield self.decide(facts, STORED, found)


def _of_before(graph: Graph, store: Node, loop: Node, loads: list[Node]) -> list[Node]:
    """The loads before a loop that a stored value rests on, where nothing of a round does more than
    hand it on, and every round has a place of its own."""
    value, pointer = store.op.operand("value"), store.op.operand("pointer")
    if value is None or pointer is None:
        return []
    inner = [n for n in graph.upstream(value, lambda n: not n.inside(loop)) if n.inside(loop)]
    of_round = [a.name for r in loop.op.regions for a in r.arguments]
    if any(n.op.kind not in _HELD for n in inner) or value in of_round:
        return []
    if any(graph.rests_on_argument(value, a) for a in of_round):
        return []
    if not any(graph.rests_on_argument(pointer, a) for a in of_round):
        return []
    before = [n for n in loads if not n.inside(loop) and graph.rests_on(value, n)]
    met = {*graph.of(*_TOGETHER)}
    met |= {around for n in graph.of(OpKind.SHUFFLE) for around in n.loops}
    made = graph.made_from([value], before, met.__contains__)
    return [n for n in before if n in made]
