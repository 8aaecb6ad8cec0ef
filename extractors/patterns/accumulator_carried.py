"""What a reduction loop carries from one iteration to the next."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, PRODUCT_POINTER
from extractors.patterns.cases_rows import NORM_BACKWARD, ROW_NORM, TURN
from extractors.patterns.cases_rows_pointer import TURN_POINTER
from extractors.patterns.cases_rows_threads import TURN_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import begun
from kb.analysis.loops import Carried, Loop, Role, accumulating, updates
from kb.analysis.stages import second_stage
from kb.evidence import Decision
from kb.ops import OpKind

_COUNTED = """__global__ void count(const float* x, int* out, int n) {
    int found = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (x[blockIdx.x * n + i] > 0.f) ++found;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = found;
}
"""
_STEPS = """__global__ void copy(const float* x, float* out, int n, int stride) {
    const float* from = x + threadIdx.x;
    float* to = out + threadIdx.x;
    int by = stride * 2;
    for (int i = 0; i < n; ++i) {
        *to = *from;
        from += by;
        to += by;
    }
}
"""
_ELEMENTS = """template <int W>
__global__ void turn(const float* x, const float* y, float* out) {
    float v[W];
    float w[W];
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * W;
#pragma unroll
    for (int i = 0; i < W; ++i) {
        v[i] = x[at + i];
        w[i] = v[i];
    }
#pragma unroll
    for (int i = 0; i < W; ++i) v[i] = v[i] * 2.f + w[i ^ 1] * y[at];
#pragma unroll
    for (int i = 0; i < W; ++i) out[at + i] = v[i];
}
"""

_PARTIALS = """__global__ void total(const float* x, float* out, int n) {
    extern __shared__ float part[];
    float acc = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc += x[blockIdx.x * n + i];
    for (int o = 16; o > 0; o >>= 1) acc += __shfl_xor_sync(0xffffffff, acc, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = acc;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = part[0];
        for (int k = 1; k < blockDim.x / 32; ++k) sum += part[k];
        out[blockIdx.x] = sum;
    }
}
"""


class AccumulatorCarried(Pattern):
    """A carried value grows by a matrix product or by a sum over what was loaded."""

    name = "accumulator-carried-through-a-reduction-loop"
    axis = "loop_carried_state"
    source = 'CUTLASS, "Efficient GEMM in CUDA": accumulators stay in registers over the main loop'
    matches = (
        Case(PRODUCT, "single accumulator"),
        Case(ATTENTION, "accumulator with running maximum and running sum"),
        Case(BACKWARD_KEYS, "dual accumulators"),
        Case(NORM_BACKWARD, "single accumulator"),
        Case(PRODUCT_POINTER, "single accumulator"),
        Case(PRODUCT_THREADS, "single accumulator"),
    )
    near_misses = (
        NearMiss(TURN, why="nothing is carried"),
        NearMiss(ROW_NORM, why="the sum is taken at once, in no loop"),
        NearMiss(TURN_POINTER, why="nothing is carried"),
        NearMiss(TURN_THREADS, why="nothing is carried"),
        NearMiss(
            _PARTIALS,
            why="one thread adds up what the warps left",
            value="single accumulator",
        ),
        NearMiss(_COUNTED, why="found elements are counted, nothing is summed"),
        NearMiss(_STEPS, why="a pointer moves on by a stride"),
        NearMiss(_ELEMENTS, why="elements of an array, each written once"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        # What one thread adds up of the partial results of warps is the second stage of a sum.
        stages = second_stage(facts) if facts.of_threads else []
        combined = {row.name for node in stages for row in node.op.results}
        for loop in facts.loops:
            if any(other.node.inside(loop.node) and _states(other) for other in facts.loops):
                continue
            states = [
                c
                for c in _states(loop)
                if not _elements(facts, loop, c)
                and not _counts(facts, loop, c)
                and (c.next not in combined or any(a.node.inside(loop.node) for a in facts.loads))
            ]
            if not states:
                continue
            yield self.decide(facts, _value(facts, loop, states), _where(facts, states))


def _elements(facts: Facts, loop: Loop, state: Carried) -> bool:
    """True for a register array that a loop fills element by element and that is unrolled; not when
    a loop around it carries the array on."""
    if loop in facts.rolled_loops or state.init in facts.graph.arguments:
        return False
    held = next((r.type for r in loop.node.op.results if r.name == state.result), None)
    return held is not None and bool(held.shape)


def _counts(facts: Facts, loop: Loop, state: Carried) -> bool:
    """True for what a thread counts up by a number, or moves on by a stride."""
    if facts.program is facts.source or state.role is not Role.SUM:
        return False
    steps = updates(facts.graph, state.argument, state.next)
    added = [n for n in steps if n.op.kind in (OpKind.ADD, OpKind.FMA)]
    return bool(added) and all(any(_given(facts, loop, v) for v in n.op.inputs[:2]) for n in added)


def _given(facts: Facts, loop: Loop, value: str) -> bool:
    """True for a whole number, or what is computed before a loop."""
    if isinstance(facts.values.literal(value), int):
        return True
    made = facts.graph.producer(value)
    return made is not None and not made.inside(loop.node)


def _states(loop: Loop) -> list[Carried]:
    roles = (Role.ACCUMULATOR, Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM)
    return loop.of(*roles)


def _value(facts: Facts, loop: Loop, states: list[Carried]) -> str:
    grown = loop.of(Role.ACCUMULATOR)
    if loop.of(Role.RUNNING_MAXIMUM):
        if grown:
            return "accumulator with running maximum and running sum"
        if loop.of(Role.RUNNING_SUM):
            return "running maximum and running sum"
        return "running maximum"
    if len(states) > 2:
        return "several accumulators"
    if len(states) == 2:
        shared = len(grown) == 2 and _shared(facts, grown)
        return "dual accumulators sharing an operand" if shared else "dual accumulators"
    if not grown and _deferred(facts, states[0]):
        return "deferred vector partials"
    return "single accumulator"


def _shared(facts: Facts, grown: list[Carried]) -> bool:
    products = [accumulating(facts.graph, c.argument, c.next) for c in grown]
    lefts = {facts.graph.core(p.op.operand("lhs")) for p in products if p is not None}
    return len(lefts) == 1 and all(p is not None for p in products)


def _deferred(facts: Facts, state: Carried) -> bool:
    """A sum kept per lane, reduced only after the loop."""
    users = facts.graph.downstream(state.result)
    inside = facts.graph.producer(state.result)
    reduced = any(
        n.op.kind == OpKind.REDUCE_SUM and inside is not None and not n.inside(inside)
        for n in users
    )
    return reduced and bool(facts.types.shape(state.result))


def _where(facts: Facts, states: list[Carried]) -> list[Node | None]:
    first = [facts.graph.producer(begun(facts, c.init)) for c in states]
    last = [facts.graph.producer(c.next) for c in states]
    return first + [
        n if n is None or not n.op.regions else _inner(facts, n, c)
        for n, c in zip(last, states, strict=True)
    ]


def _inner(facts: Facts, node: Node, state: Carried) -> Node | None:
    """The operation inside a branch that makes the next value."""
    for found in facts.graph.upstream(state.next):
        if not found.op.regions:
            return found
    return node
