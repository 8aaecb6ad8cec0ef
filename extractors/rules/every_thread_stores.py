# ruff: noqa: E501
"""All threads of a block, or all lanes of a row of them, store to one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.pointed import array_of, pointer_of
from kb.evidence import Finding, Severity
from kb.ops import OWN_THREAD, OpKind

_AXES = ("x", "y", "z")
_UNKNOWN = frozenset({OpKind.OPAQUE, OpKind.INLINE_ASM, OpKind.CALL, OpKind.SHUFFLE, OpKind.VOTE})
_ROWS = """
#include <cuda_runtime.h>
__global__ void sums(const float* x, float* out, float* last, int heads) {
  int at = (blockIdx.x * heads + threadIdx.y) * 32 + threadIdx.x;
  out[at] = 2.0f * x[at];
  last[blockIdx.x * heads + threadIdx.y] = x[blockIdx.x];
}
void run(const float* x, float* out, float* last, int rows, int heads, cudaStream_t stream) {
  dim3 grid(rows);
  dim3 block(32, heads);
  sums<<<grid, block, 0, stream>>>(x, out, last, heads);
}
"""
_BLOCK = """
__global__ void sums(const float* x, float* out, float* last, int n) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  out[at] = 2.0f * x[at];
  last[blockIdx.x] = x[blockIdx.x] + n;
}
"""


class EveryThreadStores(Rule):
    """The place of a store does not rest on the number of the thread along an axis along which the
    kernel has several, and no condition leaves one of them: each stores to the same place."""

    name = "every-thread-stores"
    dialects = ("cuda",)
    matches = (
        Case(_ROWS, "`last`: every thread along x"),
        Case(_BLOCK, "`last`: every thread along x"),
        Case(vary(_BLOCK, ("  out[at]", "  if (at >= n) return;\n  out[at]")), "`last`"),
    )
    near_misses = (
        NearMiss(
            vary(_BLOCK, ("  last[", "  if (threadIdx.x == 0) last[")), why="one thread stores"
        ),
        NearMiss(
            vary(_BLOCK, ("  last[", "  if (at == n) last[")), why="the thread at a place stores"
        ),
        NearMiss(
            vary(_BLOCK, ("  last[", "  if (threadIdx.x > 0) return;\n  last[")), why="the others are gone"
        ),
        NearMiss(
            vary(_BLOCK, ("  last[blockIdx.x] = x[blockIdx.x] + n", "  atomicAdd(&last[blockIdx.x], x[at])")),
            why="each adds to it",
        ),
        NearMiss(
            vary(_BLOCK, ("last[blockIdx.x] =", "if (x[at] > 0.0f) last[blockIdx.x] =")),
            why="what a thread has loaded decides which store",
        ),
        NearMiss(
            vary(_ROWS, ("last[blockIdx.x * heads + threadIdx.y]", "last[at]")), why="a place for each"
        ),
        NearMiss(
            vary(_ROWS, ("block(32, heads)", "block(1, heads)")), why="there is one thread along x"
        ),
        NearMiss(
            vary(_ROWS.partition("void run")[0], ("+ threadIdx.y]", "+ threadIdx.x]")),
            why="how many threads there are along y is not known",
        ),
        NearMiss(
            vary(_BLOCK, ("  last[", "  for (int k = threadIdx.x; k < 1; k += 32) last[")),
            why="a loop leaves one of them",
        ),
    )  # fmt: skip
    seen = (
        Seen("flashinfer-python", "flashinfer/data/include/flashinfer/attention/cascade.cuh", "MergeStateKernel", 72),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if not facts.of_threads:
            return
        found: dict[str, list[Node]] = {}
        home = facts.kernel.entry.span.path
        for axis in _shared_out(subject):
            for node, array in _alike(facts, axis):
                if node.op.span.path == home:
                    found.setdefault(f"`{array}`: every thread along {_AXES[axis]}", []).append(
                        node
                    )
        if found:
            yield self.finding(
                subject,
                f"{', '.join(found)} stores to the same place: no condition leaves one of them, "
                "and all but one of the stores are for nothing",
                "let one thread store",
                [node for row in found.values() for node in row],
                Severity.NOTE,
            )


def _shared_out(subject: Subject) -> list[int]:
    """Axes along which the kernel has several threads that it sends to places of their own."""
    facts = subject.facts
    given = [dict(one.hints) for one in subject.host.launches]
    alone = {
        axis for axis, letter in enumerate(_AXES)
        if given and all(one.get(f"block_{letter}", 1) == 1 for one in given)
    }  # fmt: skip
    found = []
    for axis in range(3):
        own = facts.threads.node_set(_along(facts, axis))
        told = own and axis not in alone and (given or axis == 0)
        moved = facts.threads.of(OpKind.LOAD, OpKind.STORE) if told else ()
        if any(facts.threads.resting(pointer_of(node)) & own for node in moved):
            found.append(axis)
    return found


def _along(facts: Facts, axis: int) -> list[Node]:
    """Where the kernel asks for the number of the thread along an axis; of the warp or the lane
    along the first."""
    found = []
    for node in facts.threads.of(*OWN_THREAD):
        given = facts.threads.producer(node.op.operand("axis"))
        along = given.op.attribute("value") if given is not None else None
        if along == axis or (node.op.kind != OpKind.THREAD_ID and axis == 0) or along is None:
            found.append(node)
    return found


def _alike(facts: Facts, axis: int) -> Iterator[tuple[Node, str]]:
    """Stores to arrays that every thread along an axis does at one place."""
    graph = facts.threads
    own = graph.node_set([*_along(facts, axis), *graph.of(*_UNKNOWN)])
    ends = [
        n for n in graph.of(OpKind.RETURN, OpKind.BREAK, OpKind.CONTINUE) if _chosen(facts, n, own)
    ]
    first = min((node.index for node in ends), default=len(graph.nodes) + 1)
    for store in graph.of(OpKind.STORE):
        array = array_of(graph, store)
        if (
            array not in graph.function.parameter_names
            or store.index > first
            or graph.resting(pointer_of(store)) & own
        ):
            continue
        if store.op.attribute("space") == "shared" or store.op.operand("mask") is not None:
            continue
        if not _chosen(facts, store, own):
            yield store, array


_ORDERED = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})


def _chosen(facts: Facts, node: Node, own: int) -> bool:
    """Whether a condition or a loop around a node rests on the number of the thread, and not only
    asks whether it is within a size."""
    return any(
        facts.threads.resting(value) & own and not _within(facts, value, own)
        for around in node.around()
        for value in _deciding(around)
    )


def _within(facts: Facts, condition: str, own: int) -> bool:
    """Whether a condition compares places of threads with a size, which several are below."""
    graph = facts.threads
    test = graph.producer(condition)
    if test is None or not graph.resting(condition) & own:
        return test is not None
    if test.op.kind in (OpKind.AND, OpKind.OR):
        return all(_within(facts, value, own) for value in test.op.inputs)
    if test.op.kind not in _ORDERED:
        return False
    left, right = (facts.thread_values.expr(value) for value in test.op.inputs[:2])
    sides = [bool(graph.resting(value) & own) for value in test.op.inputs[:2]]
    size = right if sides[0] else left
    place = test.op.inputs[0] if sides[0] else test.op.inputs[1]
    loaded = any(n.op.kind in (OpKind.LOAD, *_UNKNOWN) for n in graph.upstream(place))
    return sides != [True, True] and not loaded and size.constant is None


def _deciding(around: Node) -> tuple[str, ...]:
    if around.op.kind == OpKind.WHILE:
        return tuple(v for region in around.op.regions for v in region.ops[-1].inputs)
    return around.op.inputs
