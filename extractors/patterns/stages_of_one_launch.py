"""Stages that could be kernels of their own stand in one, with a wait between them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_LOCKED
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.locks import polled
from kb.analysis.pointed import array_of
from kb.analysis.spinning import awaited
from kb.evidence import Decision
from kb.ops import ATOMICS, READS, WRITES, OpKind

_GRID = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void both(const float* x, float* part, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.f;
    for (int i = 0; i < n; i++) sum += x[at * n + i];
    part[at] = sum;
    cg::this_grid().sync();
    out[at] = part[at ^ 1] * 2.f;
}
"""
_COUNTED = """__global__ void both(const float* x, float* part, float* out, int* count, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    part[at] = x[at] * 2.f;
    __threadfence();
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (atomicAdd(count, 0) < gridDim.x) {}
    }
    __syncthreads();
    out[at] = part[n - at] + 1.f;
}
"""
_SPUN = (
    POINTER
    + """
@triton.jit
def scale(x, top, count, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_max(top, tl.max(tl.abs(v), axis=0))
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < tl.num_programs(0):
        pass
    most = tl.load(top)
    tl.store(out + at, tl.load(x + at, mask=at < n) / most, mask=at < n)
"""
)
_PASSES = (
    POINTER
    + """
@triton.jit
def back(x, y, left, right, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    acc = tl.zeros((T,), dtype=tl.float32)
    for i in range(n):
        acc += tl.load(x + at) * tl.load(y + i)
    tl.store(left + at, acc)
    tl.debug_barrier()
    acc = tl.zeros((T,), dtype=tl.float32)
    for i in range(n):
        acc += tl.load(y + at) * tl.load(x + i)
    tl.store(right + at, acc)
"""
)
_ONE = "stages in one launch, a wait between them"
_TWO = "passes in one launch, one after the other"
_MOVED = WRITES | ATOMICS


class StagesOfOneLaunch(Pattern):
    """Blocks store what they made, wait for each other or for a word that others write, and then
    store what they make of what they load; or one block does two passes, a barrier between them."""

    name = "stages-of-one-launch"
    axis = "kernel_boundaries"
    source = "NVIDIA, CUDA C++ Programming Guide, cooperative groups: grid synchronisation"
    matches = (
        Case(_GRID, _ONE),
        Case(_COUNTED, _ONE),
        Case(_SPUN, _ONE),
        Case(_PASSES, _TWO),
    )
    near_misses = (
        NearMiss(vary(_GRID, ("cg::this_grid().sync()", "__syncthreads()")), why="within a block"),
        NearMiss(vary(_GRID, ("    part[at] = sum;\n", "")), why="nothing is stored before"),
        NearMiss(vary(_GRID, ("part[at ^ 1] * 2.f", "0.f")), why="nothing is loaded behind"),
        NearMiss(vary(_COUNTED, ("while (atomicAdd", "if (atomicAdd")), why="nobody waits"),
        NearMiss(vary(_PASSES, ("    tl.debug_barrier()\n", "")), why="no barrier"),
        NearMiss(vary(_PASSES, ("tl.store(right", "tl.store(left")), why="one result"),
        NearMiss(NORM_BACKWARD_LOCKED, why="a lock around a sum"),
        NearMiss(PRODUCT_THREADS, why="threads of a block wait"),
        NearMiss(PRODUCT_POINTER, why="no wait"),
        NearMiss(PRODUCT, why="no wait"),
        NearMiss(ADD_THREADS, why="no wait"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, dict[Node, None]] = {}
        for wait, words in _waits(facts):
            value = _TWO if wait.op.kind == OpKind.BARRIER and not facts.of_threads else _ONE
            before = _made(facts, 0, wait.index)
            before = [n for n in before if (_array(facts, n) or None) not in words]
            after = _made(facts, wait.last, len(facts.threads.nodes))
            if value == _TWO:
                arrays = {_array(facts, n) for n in before}
                after = [n for n in after if _array(facts, n) not in arrays]
            if before and after:
                found.setdefault(value, {}).update(dict.fromkeys([*before, wait, *after]))
        for value, where in found.items():
            yield self.decide(facts, value, where)


def _waits(facts: Facts) -> list[tuple[Node, set[str | None]]]:
    """Where blocks wait, outside of loops, with the arrays of the words that they wait for."""
    graph = facts.threads
    found: list[tuple[Node, set[str | None]]] = []
    for node in graph.of(OpKind.BARRIER):
        whole = node.op.attribute("scope") == "grid" if facts.of_threads else node.parent is None
        found += [(node, set())] if whole and not node.loops else []
    polls = {n for n in polled(facts) if n.op.regions}
    for loop in graph.of(OpKind.WHILE, OpKind.FOR):
        if loop.loops:
            continue
        read = awaited(facts, loop) if loop.op.kind == OpKind.WHILE else None
        if read is not None and read.op.kind != OpKind.ATOMIC_CAS:
            found.append((loop, {_array(facts, read)}))
        elif loop in polls:
            inside = [n for n in graph.within(loop) if n.op.kind == OpKind.LOAD]
            found.append((loop, {_array(facts, n) for n in inside}))
    return found


def _made(facts: Facts, first: int, last: int) -> list[Node]:
    """Stores to global memory between two places that are given what is made of what is loaded
    there."""
    graph = facts.threads
    loads = graph.node_set(
        n for n in graph.of(*READS)
        if first < n.index < last and n.op.attribute("space") != "shared"
    )  # fmt: skip
    return [
        n for n in graph.of(*_MOVED)
        if first < n.index < last and not facts.shared.holds(n.op) and not _counts(facts, n)
        and graph.rests_on_any(n.op.operand("value") or "", loads)
    ]  # fmt: skip


def _counts(facts: Facts, store: Node) -> bool:
    """Whether a store is given a loaded number and a step: a word that others wait for."""
    graph = facts.threads
    made = graph.producer(graph.core(store.op.operand("value")))
    if made is None or made.op.kind != OpKind.ADD:
        return False
    return any(isinstance(facts.thread_values.literal(graph.core(v)), int) for v in made.op.inputs)


def _array(facts: Facts, moved: Node) -> str:
    """The array that an access goes to; empty where none is known."""
    if facts.of_threads:
        return array_of(facts.threads, moved)
    access = facts.access(moved)
    return (access.array if access is not None else None) or ""
