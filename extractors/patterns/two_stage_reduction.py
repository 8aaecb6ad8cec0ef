"""A reduction of a block in two stages."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import (
    ADD_THREADS,
    ATOMIC_COLUMNS_THREADS,
    COLUMNS_THREADS,
    ROW_NORM_THREADS,
)
from extractors.patterns.cases_threads import FARTHEST_THREADS, FLASH_THREADS, TREE_THREADS
from kb.analysis.exchanges import reduction_kind
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Role, grower
from kb.analysis.stages import added_by_atomics, partials_joined, second_stage, tree_steps
from kb.evidence import Decision

_HEAD = """__global__ void total(const float* x, float* out, int n) {
    __shared__ float part[32];
    float acc = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc += x[blockIdx.x * n + i];
    for (int o = 16; o > 0; o >>= 1) acc += __shfl_xor_sync(0xffffffff, acc, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = acc;
    __syncthreads();
"""
_LOOPED = (
    _HEAD
    + """    float sum = 0.f;
    for (int k = 0; k < blockDim.x / 32; ++k) sum += part[k];
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
"""
)
_OBJECT = """template <typename T> struct Memory {
    __device__ operator T*() { extern __shared__ int all[]; return (T*)all; }
    __device__ operator const T*() const { extern __shared__ int all[]; return (T*)all; }
};
template <typename T> __global__ void total(const T* x, T* out) {
    T* part = Memory<T>();
    T own = x[blockIdx.x * 128 + threadIdx.x];
    part[threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.x < 64) part[threadIdx.x] = own = own + part[threadIdx.x + 64];
    __syncthreads();
    if (threadIdx.x < 32) part[threadIdx.x] = own = own + part[threadIdx.x + 32];
    if (threadIdx.x == 0) out[blockIdx.x] = own;
}
"""
_TOTALS = TREE_THREADS.replace("threadIdx.x < o", "threadIdx.x >= o").replace(
    "part[threadIdx.x + o]", "part[threadIdx.x - o]"
)
_HANDED = _HEAD + "    if (threadIdx.x == 0) out[blockIdx.x] = part[0] + 1.f;\n}\n"


_PARTS = "partials of the threads, joined through shared memory"
_ADDED = "partials of the threads, joined in shared memory by atomics"


class TwoStageReduction(Pattern):
    """Shuffles combine a warp, shared memory holds a number per warp, and those are combined: with
    what loops added up before, and the loop that reads the row again for the outcome. Or threads
    halve in shared memory, step by step, what all of them left there; or add it up there by
    atomics."""

    name = "two-stage-block-reduction"
    axis = "reduction_scheme"
    source = "Luitjens, Faster Parallel Reductions on Kepler (2014), block reduce"
    matches = (
        Case(_LOOPED, "tree/warp shuffle then shared memory"),
        Case(ROW_NORM_THREADS, "tree/warp shuffle then shared memory"),
        Case(TREE_THREADS, "tree in shared memory"),
        Case(_OBJECT, "tree in shared memory"),
        Case(FARTHEST_THREADS, "tree in shared memory"),
        Case(COLUMNS_THREADS, _PARTS),
        Case(ATOMIC_COLUMNS_THREADS, _ADDED),
    )
    near_misses = (
        NearMiss(_HANDED, why="one warp's result is handed on, nothing combines those of several"),
        NearMiss(FLASH_THREADS, why="a row belongs to one warp"),
        NearMiss(ADD_THREADS, why="nothing is reduced"),
        NearMiss(
            FARTHEST_THREADS.replace("best[threadIdx.x] < best[threadIdx.x + o]", "o > 4"),
            why="numbers are moved, none is compared with another",
        ),
        NearMiss(
            vary(COLUMNS_THREADS, ("= sum;\n    __sync", "= dy[threadIdx.x];\n    __sync")),
            why="loaded elements are added, no parts of a sum",
        ),
        NearMiss(
            vary(COLUMNS_THREADS, ("part[j * 32 + lane]", "part[threadIdx.x]")),
            why="a thread adds what it left itself",
        ),
        NearMiss(
            vary(ATOMIC_COLUMNS_THREADS, ("], acc)", "], 1.f)")),
            why="threads are counted",
            value=_ADDED,
        ),
        NearMiss(_TOTALS, why="each thread adds what lies before it: running totals"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        stages = second_stage(facts)
        if stages:
            where = [*stages, *_streamed(facts), *_applied(facts)]
            yield self.decide(facts, "tree/warp shuffle then shared memory", where)
        elif tree := tree_steps(facts):
            yield self.decide(facts, "tree in shared memory", [*tree, *_streamed(facts)])
        if parts := [n for nodes in partials_joined(facts).values() for n in nodes]:
            yield self.decide(facts, _PARTS, [*parts, *_own(facts, parts)])
        elif added := added_by_atomics(facts):
            yield self.decide(
                facts, _ADDED, [n for atomic, sums in added.items() for n in (*sums, atomic)]
            )


def _own(facts: Facts, parts: list[Node]) -> list[Node]:
    """What one thread adds up in a loop before it leaves the sum."""
    ends = [o for n in parts for region in n.op.regions[-1:] for o in region.ops[-1:]]
    found = [facts.threads.producer(v) for end in ends for v in end.inputs]
    return [n for n in found if n is not None and reduction_kind(n.op.kind) is not None]


def _streamed(facts: Facts) -> list[Node]:
    """What loops add up before the threads combine."""
    found = []
    for loop in facts.rolled_loops:
        for state in loop.of(Role.SUM):
            made = facts.graph.producer(state.result)
            if made is not None and any(
                facts.graph.rests_on(r.result, made) for r in facts.reductions
            ):
                found.append(grower(facts.graph, state.next))
    return [n for n in found if n is not None]


def _applied(facts: Facts) -> list[Node]:
    """Loads of a later loop over the same row, which meets the outcome."""
    read = {
        a.array
        for a in facts.loads
        if a.loop and any(facts.graph.rests_on(r.result, a.node) for r in facts.reductions)
    }
    return [
        a.node
        for a in facts.loads
        if a.loop
        and a.array in read
        and not any(facts.graph.rests_on(r.result, a.node) for r in facts.reductions)
    ]
