"""What lies past the end reads inside again, and is not stored."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Node
from kb.analysis.symbolic import ONE, add
from kb.evidence import Decision
from kb.ops import OpKind

_PAIRS = """__global__ void twice(const float* x, float* out, int heads, int width) {
    for (int h = blockIdx.y; h < heads; h += 2 * gridDim.y) {
        int other = h + gridDim.y;
        bool more = other < heads;
        int from = more ? other : h;
        float a = x[h * width + threadIdx.x];
        float b = x[from * width + threadIdx.x];
        out[h * width + threadIdx.x] = a + a;
        if (more) out[other * width + threadIdx.x] = b + b;
    }
}
"""
_LAST = """__global__ void twice(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[min(at, n - 1)];
    if (at < n) out[at] = v + v;
}
"""


_INSIDE = {OpKind.LT: 0, OpKind.GT: 0, OpKind.GE: 1, OpKind.LE: 1}
"""Which side of a branch lies inside, for a place before an extent or behind it."""
_OWN_FIRST = (OpKind.LT, OpKind.GE)


class ReadInside(Pattern):
    """A load takes another place than its own where that lies outside, or at most the last; what
    is computed from it is stored only where its own place lies inside."""

    name = "past-the-end-read-inside-and-not-stored"
    axis = "tail_handling"
    source = "Allen, Kennedy, Optimizing Compilers for Modern Architectures, if-conversion"
    matches = (
        Case(_PAIRS, "read again inside, not stored"),
        Case(_LAST, "read again inside, not stored"),
        Case(
            vary(
                _PAIRS,
                ("    for (", "    heads = most[blockIdx.x];\n    for ("),
                ("int heads", "const int* most, int heads"),
                ("other < heads", "heads > other"),
            ),
            "read again inside, not stored",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_PAIRS, ("        if (more) ", "        ")), why="the store is not kept back"
        ),
        NearMiss(
            vary(_PAIRS, ("more ? other : h", "other")),
            why="what lies outside is read where it lies",
        ),
        NearMiss(vary(_LAST, ("min(at, n - 1)", "min(at, 7)")), why="a table of eight"),
        NearMiss(ADD_THREADS, why="nothing outside is read"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        graph = facts.threads
        stores = [n for n in graph.of(OpKind.STORE) if n.op.attribute("space") != "shared"]
        kept = [(store, test) for store in stores for test in _asked(graph, store)]
        if not kept:
            return
        found: list[Node] = []
        for chosen in graph.of(OpKind.SELECT, OpKind.MINIMUM):
            held = [(s, t) for s, t in kept if _same(facts, chosen, t)]
            loads = _read(graph, chosen) if held else []
            for store, test in held:
                used = [n for n in loads if graph.rests_on(store.op.operand("value"), n)]
                found += [chosen, test, *used, store] if used else []
        if found:
            yield self.decide(facts, "read again inside, not stored", found)


def _asked(graph: Graph, store: Node) -> list[Node]:
    """The comparisons that keep a store inside."""
    found, below = [], store
    for node in store.around():
        if node.op.kind == OpKind.IF:
            test = graph.producer(graph.core(node.op.inputs[0]))
            side = _INSIDE.get(OpKind(test.op.kind)) if test else None
            found += [test] if test is not None and side == below.branch else []
        below = node
    return found


def _read(graph: Graph, chosen: Node) -> list[Node]:
    """Loads of global memory that a chosen place addresses."""
    loads = (n for n in graph.of(OpKind.LOAD) if n.op.attribute("space") != "shared")
    return [n for n in loads if graph.rests_on(n.op.operand("pointer"), chosen)]


def _same(facts: Facts, chosen: Node, test: Node) -> bool:
    """Whether a comparison chooses between its own place and another one, or lets all pass up to
    the last that may be chosen."""
    graph, values = facts.threads, facts.thread_values
    sides = test.op.inputs[:2] if test.op.kind in _OWN_FIRST else test.op.inputs[1::-1]
    own, extent = (values.expr(v) for v in sides)
    if chosen.op.kind == OpKind.MINIMUM:
        limits = [values.expr(v) for v in chosen.op.inputs[:2]]
        return own in limits and any(add(limit, ONE) == extent for limit in limits)
    inside, outside = (values.expr(v) for v in chosen.op.inputs[1:3])
    if _INSIDE[OpKind(test.op.kind)]:
        inside, outside = outside, inside
    asked = graph.core(chosen.op.operand("condition")) == test.result
    return asked and own == inside and not set(own.terms) <= set(outside.terms)
