"""Elements that the threads of a block load once for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Graph, Node
from kb.evidence import Decision
from kb.ops import OWN_THREAD, OpKind

_VALUE = "staged in shared memory, read by every thread"
_HELD = CASTS | {OpKind.COPY, OpKind.EXTRACT, OpKind.BITCAST}
_POINTS = """__global__ void nearest(const float* a, const float* b, float* out, int n, int m) {
    __shared__ float own[256];
    int at = blockIdx.x * 256 + threadIdx.x;
    float x = a[at], least = 1e30f;
    for (int start = 0; start < m; start += 256) {
        own[threadIdx.x] = b[start + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 256; ++j) least = fminf(least, fabsf(own[j] - x));
        __syncthreads();
    }
    out[at] = least;
}
"""
_ROW = """__global__ void apply(const half* x, const half* w, float* out, int n, int wide) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < wide; i += blockDim.x)
        row[i] = __half2float(x[blockIdx.y * wide + i]);
    __syncthreads();
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.f;
    for (int k = 0; k < wide; ++k) sum += row[k] * __half2float(w[k * n + at]);
    out[blockIdx.y * n + at] = sum;
}
"""


class StagedForAll(Pattern):
    """Threads put what each has loaded, perhaps in another type, into shared memory; in a loop
    every thread reads it at a place that the round says and the thread does not."""

    name = "staged-once-and-read-by-every-thread"
    axis = "load_reuse"
    source = "NVIDIA, CUDA C++ Programming Guide, shared memory: tiles of bodies and matrices"
    matches = (Case(_POINTS, _VALUE), Case(_ROW, _VALUE))
    near_misses = (
        NearMiss(
            _POINTS.replace("own[j]", "own[threadIdx.x]"),
            why="every thread reads what it put there",
        ),
        NearMiss(_POINTS.replace("own[j]", "b[start + j]"), why="read again from global memory"),
        NearMiss(
            _ROW.replace("x[blockIdx.y * wide + i])", "x[blockIdx.y * wide + i]) * 0.5f").replace(
                "row[k]", "row[0]"
            ),
            why="one number for all rounds",
        ),
        NearMiss(ROW_NORM_THREADS, why="sums of the threads, nothing that was loaded"),
        NearMiss(ADD_THREADS, why="no shared memory"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        shared, graph = facts.shared, facts.threads
        if not facts.of_threads or not shared.allocations:
            return
        puts: dict[str, list[Node]] = {}
        for store in graph.of(OpKind.STORE):
            place = shared.place(store.op)
            if place is not None and graph.roots(store.op.operand("pointer"), *OWN_THREAD):
                value = graph.through(store.op.operand("value"), _HELD)
                below = [n for n in graph.ends(value, _HELD) if n.op.kind == OpKind.LOAD]
                loads = [n for n in below if not shared.holds(n.op)]
                puts.setdefault(place, []).extend([*loads, store] if loads else [])
        found: dict[Node, None] = {}
        for load in graph.of(OpKind.LOAD) if any(puts.values()) else ():
            put = puts.get(shared.place(load.op) or "", [])
            if put and _by_rounds_alone(graph, load):
                found |= dict.fromkeys([*put, load])
        if found:
            yield self.decide(facts, _VALUE, found)


def _by_rounds_alone(graph: Graph, load: Node) -> bool:
    """Whether the round of a loop says where a load reads, and the number of the thread does
    not."""
    pointer = load.op.operand("pointer")
    if pointer is None or graph.roots(pointer, *OWN_THREAD):
        return False
    rounds = [a.name for n in load.loops for r in n.op.regions for a in r.arguments]
    return any(graph.rests_on_argument(pointer, a) for a in rounds)
