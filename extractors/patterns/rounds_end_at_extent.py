"""Threads that stride over a row and stop where it ends: the bound of the loop is the check."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.padding_policy import padded
from extractors.patterns.thread_guard import ThreadGuard
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.evidence import Decision
from kb.ir import Literal
from kb.ops import ATOMICS, READS, WRITES, OpKind

_THREADS = (OpKind.THREAD_ID, OpKind.LANE_ID, OpKind.WARP_ID)

_STRIDED = """__global__ void twice(const float* x, float* out, int n) {
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x)
        out[at] = x[at] + x[at];
}
"""
_DIAGONAL = """__global__ void scale(const float* x, float* out, float by, int T) {
    int row = blockIdx.x;
    for (int at = threadIdx.x; at <= row; at += blockDim.x)
        out[row * T + at] = x[row * T + at] * by;
}
"""
_CHUNKS = """__global__ void twice(const float* x, float* out, int n) {
    for (int from = blockIdx.x * 256; from < n; from += gridDim.x * 256)
        out[from + threadIdx.x] = x[from + threadIdx.x];
}
"""


class RoundsEndAtExtent(Pattern):
    """A loop that begins at the own thread and goes on by the number of threads accesses memory at
    its index, up to a bound that is known at run time; and nothing else is asked of positions."""

    name = "rounds-of-threads-end-at-the-extent"
    axis = "boundary_handling"
    source = "NVIDIA, CUDA Pro Tip: Write Flexible Kernels with Grid-Stride Loops (2013)"
    matches = (Case(_STRIDED, "loop bound"), Case(_DIAGONAL, "loop bound"))
    near_misses = (
        NearMiss(_STRIDED.replace("at < n", "at < 4096"), why="nothing lies outside"),
        NearMiss(_CHUNKS, why="all threads of a block go on together, past the end too"),
        NearMiss(
            _STRIDED.replace("x[at] + x[at]", "x[blockIdx.x]").replace("out[at]", "out[threadIdx.x]"),  # noqa: E501
            why="no access goes along",
        ),
        NearMiss(
            _STRIDED.replace("out[at] =", "if (blockIdx.y * 4 + threadIdx.y < n) out[at] ="),
            why="a branch asks for another position: that is told",
        ),
        NearMiss(ADD_THREADS, why="every thread has one element"),
        NearMiss(ROW_NORM_THREADS, why="lanes outside have a value: told with their padding"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        loops = [n for n in facts.threads.of(OpKind.FOR) if _ends_by_thread(facts, n)]
        if loops:
            touching = [
                n
                for n in facts.threads.of(*READS, *WRITES, *ATOMICS)
                if n.op.attribute("space") != "shared"
            ]
            found = [loop for loop in loops if any(_along(facts, n, loop) for n in touching)]
            if found and not padded(facts) and not any(ThreadGuard().find(facts)):
                yield self.decide(facts, "loop bound", found)


def _ends_by_thread(facts: Facts, loop: Node) -> bool:
    """True for a range from the own thread, in steps of more than one, to what only the launch
    tells."""
    graph = facts.threads
    made = graph.producer(loop.op.inputs[0])
    if made is None or made.op.kind != OpKind.RANGE:
        return False
    low, high, step = (made.op.operand(role) for role in ("low", "high", "step"))
    if not graph.roots(low, *_THREADS) or _number(facts, step) == 1 or high is None:
        return False
    if graph.roots(high, *_THREADS):
        return False
    known = {*facts.constexprs}
    names = [high] if graph.producer(high) is None else []
    names += [v for n in graph.upstream(high) for v in n.op.inputs if graph.producer(v) is None]
    of_grid = bool(graph.roots(high, OpKind.BLOCK_ID, *READS))
    return of_grid or any(name not in known for name in names)


def _number(facts: Facts, value: str | None) -> Literal:
    made = facts.threads.producer(value)
    return made.op.attribute("value") if made is not None else None


def _along(facts: Facts, access: Node, loop: Node) -> bool:
    """True when an access moves with a loop, and no loop of run-time rounds lies between."""
    if not access.inside(loop):
        return False
    inner = [n for n in access.loops if n.op.kind in LOOPS and n.inside(loop)]
    ranges = [facts.threads.producer(n.op.inputs[0]) if n.op.inputs else None for n in inner]
    if any(r is None or r.op.kind != OpKind.STATIC_RANGE for r in ranges):
        return False
    index = loop.op.regions[-1].arguments[0].name
    address = access.op.operand("pointer") or next(iter(access.op.inputs), "")
    return _reaches(facts, address, index)


def _reaches(facts: Facts, value: str, index: str) -> bool:
    """True when a value is computed from another one."""
    if value == index:
        return True
    return any(index in node.op.inputs for node in facts.threads.upstream(value))
