"""Sums that a block keeps in shared memory while it walks its work."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_threads import PRODUCT_THREADS, TREE_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.shared import SharedMemory
from kb.analysis.symbolic import sub
from kb.evidence import Decision
from kb.ops import OpKind

_ADDED = """__global__ void columns(const float* x, float* part, int rows, int cols) {
    extern __shared__ float sums[];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sums[i] = 0.f;
    __syncthreads();
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        for (int i = threadIdx.x; i < cols; i += blockDim.x) sums[i] += x[row * cols + i];
    }
    for (int i = threadIdx.x; i < cols; i += blockDim.x) part[blockIdx.x * cols + i] = sums[i];
}
"""
_SWEPT = """__global__ void totals(float* x, int n) {
    extern __shared__ float temp[];
    temp[threadIdx.x] = x[threadIdx.x];
    for (int d = n / 2, o = 1; d > 0; d /= 2, o *= 2) {
        __syncthreads();
        if (threadIdx.x < d) temp[o * (2 * threadIdx.x + 2) - 1] += temp[o * (2 * threadIdx.x + 1) - 1];
    }
    x[threadIdx.x] = temp[threadIdx.x];
}
"""  # noqa: E501
_HALVED = """__global__ void total(const float* x, float* out) {
    __shared__ float part[256];
    float own = x[blockIdx.x * 256 + threadIdx.x];
    part[threadIdx.x] = own;
    for (int o = 128; o > 0; o /= 2) {
        __syncthreads();
        if (threadIdx.x < o) part[threadIdx.x] = own = own + part[threadIdx.x + o];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = own;
}
"""
_ATOMIC = vary(_ADDED, ("sums[i] += x[row * cols + i]", "atomicAdd(&sums[i], x[row * cols + i])"))
_SCAN = """__global__ void totals(float* x, int n) {
    __shared__ float sums[32];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sums[threadIdx.x / 32] = x[i];
        __syncthreads();
        float own = sums[threadIdx.x % 32];
        for (int o = 1; o < 32; o *= 2) {
            float other = __shfl_up_sync(0xffffffff, own, o);
            if (threadIdx.x % 32 >= o) own += other;
        }
        sums[threadIdx.x % 32] = own;
        __syncthreads();
        x[i] = sums[threadIdx.x / 32];
    }
}
"""
_POINTERS = (OpKind.POINTER_CAST, OpKind.ALLOCATE, OpKind.ADD, OpKind.COPY)
_HELD = CASTS | {OpKind.COPY, OpKind.EXTRACT, OpKind.BITCAST, OpKind.INSERT}


class SharedSums(Pattern):
    """In a loop, what lies in shared memory is loaded, added to and stored again, or added to by
    atomics."""

    name = "sums-kept-in-shared-memory"
    axis = "loop_carried_state"
    source = "Karpathy, llm.c, layernorm_backward.cu (2024): sums of parameters' gradients"
    matches = (
        Case(_ADDED, "sums in shared memory"),
        Case(_ATOMIC, "sums in shared memory"),
    )
    near_misses = (
        NearMiss(TREE_THREADS, why="elements of the array are added to each other"),
        NearMiss(
            vary(_ATOMIC, ("x[row * cols + i])", "1.f)")),
            why="elements are counted",
        ),
        NearMiss(_SWEPT, why="elements of the array are added to each other, wherever they lie"),
        NearMiss(_HALVED, why="a register and what another thread left become one"),
        NearMiss(_SCAN, why="warps' sums become running totals"),
        NearMiss(PRODUCT_THREADS, why="shared memory holds operands, registers the sum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        where = kept_sums(facts)
        if where:
            yield self.decide(facts, "sums in shared memory", where)


def kept_sums(facts: Facts) -> list[Node]:
    """Where loops add to what lies in shared memory."""
    if not facts.of_threads or not facts.threads.of(OpKind.ALLOCATE):
        return []
    graph, shared = facts.threads, facts.shared
    where: list[Node] = []
    for atomic in graph.of(OpKind.ATOMIC_ADD):
        made = graph.producer(graph.through(atomic.op.operand("value"), _HELD))
        counted = made is None or made.op.kind == OpKind.CONST
        if atomic.loops and shared.holds(atomic.op) and not counted:
            where.append(atomic)
    for store in graph.of(OpKind.STORE):
        if store.loops and shared.holds(store.op):
            where += _added(facts, shared, store)
    return where


def _added(facts: Facts, shared: SharedMemory, store: Node) -> list[Node]:
    """The load, the sum and the store, where the one place that is written is loaded once and
    something else is added."""
    graph, place = facts.threads, shared.place(store.op)
    value = store.op.operand("value")
    if not any(shared.place(n.op) == place for n in graph.roots(value, OpKind.LOAD)):
        return []
    stops = (OpKind.LOAD, OpKind.SHUFFLE)
    above = list(graph.upstream(value or "", lambda n: n.op.kind in stops))
    loads = [n for n in above if n.op.kind == OpKind.LOAD and shared.place(n.op) == place]
    sums = [n for n in above if n.op.kind in (OpKind.ADD, OpKind.FMA)]
    own = [n for n in sums if any(graph.rests_on(n.result, load) for load in loads)]
    if len(loads) != 1 or not own or loads[0].loop is not store.loop:
        return []
    places = [facts.thread_values.expr(n.op.inputs[0]) for n in (loads[0], store)]
    apart = sub(*places)
    if apart.terms and not any(graph.kind_of(a.value) in _POINTERS for a in apart.atoms()):
        return []
    sides = [graph.producer(graph.through(v, _HELD)) for v in own[-1].op.inputs[:2]]
    if all(n is not None and n.op.kind == OpKind.LOAD and shared.holds(n.op) for n in sides):
        return []
    if any(n.op.kind == OpKind.SHUFFLE and graph.rests_on(n.result, loads[0]) for n in above):
        return []
    return [loads[0], own[-1], store]
