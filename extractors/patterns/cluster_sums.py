"""Partial results that the blocks of a cluster join through each other's shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, LOOPS, Node, NodeSet
from kb.analysis.loops import Loop, Role
from kb.analysis.stages import steps
from kb.evidence import Decision
from kb.ops import OpKind

CLUSTER_THREADS = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void norm(const float* x, float* out, int n) {
    __shared__ float part;
    cg::cluster_group cluster = cg::this_cluster();
    float own = x[blockIdx.x * n + threadIdx.x];
    for (int o = 16; o > 0; o >>= 1) own += __shfl_xor_sync(0xffffffff, own, o);
    if (threadIdx.x == 0) part = own;
    cluster.sync();
    float all = 0.f;
    for (int i = 0; i < 4; ++i) all += *cluster.map_shared_rank(&part, i);
    out[blockIdx.x * n + threadIdx.x] = all;
}
"""
_PUSHED = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void norm(const float* x, float* out, int n) {
    __shared__ float parts[8];
    auto cluster = cg::this_cluster();
    float own = x[blockIdx.x * n + threadIdx.x];
    for (int o = 16; o > 0; o >>= 1) own = fmaxf(own, __shfl_xor_sync(0xffffffff, own, o));
    if (threadIdx.x < cluster.num_blocks())
        cluster.map_shared_rank(parts, threadIdx.x)[cluster.block_rank()] = own;
    cluster.sync();
    float top = parts[0];
    for (int i = 0; i < cluster.num_blocks(); ++i) top = fmaxf(top, parts[i]);
    out[blockIdx.x * n + threadIdx.x] = top;
}
"""
_MAPPED = "map_shared_rank"
"""The call of the CUDA library that finds the shared memory of another block of the cluster."""

_STEPS = frozenset({OpKind.ADD, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.FMA})
_PASSES = (
    _STEPS | CASTS | COPIES | LOOPS
    | {OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION, OpKind.EXTRACT, OpKind.INSERT}
)  # fmt: skip
_GROWN = (Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM, Role.RUNNING_MINIMUM, Role.ACCUMULATOR)


class ClusterSums(Pattern):
    """A loop, or shuffles, add up or compare what lies in the shared arrays of other blocks, or in
    an array of the block's own that other blocks of its cluster wrote to."""

    name = "partials-joined-over-a-cluster"
    axis = "cross_cta_reduction"
    source = "NVIDIA, CUDA C++ Programming Guide, distributed shared memory"
    matches = (
        Case(CLUSTER_THREADS, "cluster reduce"),
        Case(_PUSHED, "cluster reduce"),
    )
    near_misses = (
        NearMiss(
            CLUSTER_THREADS.replace("*cluster.map_shared_rank(&part, i)", "part"),
            why="the block's own memory",
        ),
        NearMiss(
            CLUSTER_THREADS.replace("all += *", "all = *"),
            why="the number of one block is taken over",
        ),
        NearMiss(
            _PUSHED.replace("fmaxf(top, parts[i])", "fmaxf(top, x[i])"),
            why="what other blocks left is read, not joined",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if found := cluster_sums(facts):
            yield self.decide(facts, "cluster reduce", found)


def cluster_sums(facts: Facts) -> list[Where]:
    """Where the shared memory of other blocks is found, and what joins the partial results there:
    loops with their steps, else shuffles."""
    mapped = [
        n
        for n in facts.threads.of(OpKind.OPAQUE)
        if str(n.op.attribute("what") or "").endswith(_MAPPED)
    ]
    arrays = {a for n in mapped for v in n.op.inputs if (a := facts.shared.array(v)) is not None}
    others = facts.threads.node_set(mapped)
    found: list[Where] = []
    for loop in facts.thread_loops if arrays else ():
        joined = [*_joined(facts, loop, (arrays, others))]
        found += [loop.node.head, *joined] if joined else []
    if not found and arrays:
        found += [n for n in steps(facts) if _reads(facts, n, (arrays, others))]
    return [*mapped, *found] if found else []


Mapped = tuple[set[str], NodeSet]
"""Arrays of which other blocks have their own, and what finds those."""


def _joined(facts: Facts, loop: Loop, mapped: Mapped) -> Iterator[Node]:
    """The steps of a loop that add up, or compare, what lies in the arrays."""
    for carried in loop.of(*_GROWN):
        step = facts.threads.producer(carried.next)
        if step is not None and _reads(facts, step, mapped, carried.argument):
            yield step


def _reads(facts: Facts, step: Node, mapped: Mapped, carried: str = "") -> bool:
    """Whether a step takes in, unchanged, what is read from one of the arrays."""
    for value in step.op.inputs:
        if facts.threads.through(value, CASTS | COPIES) == carried:
            continue
        for node in facts.threads.upstream(value, lambda n: n.op.kind not in _PASSES):
            read = node.op.kind in (OpKind.LOAD, OpKind.OPAQUE)
            if read and any(_lies_in(facts, v, mapped) for v in node.op.inputs):
                return True
    return False


def _lies_in(facts: Facts, place: str, mapped: Mapped) -> bool:
    arrays, others = mapped
    return facts.shared.array(place) in arrays or facts.threads.rests_on_any(place, others)
