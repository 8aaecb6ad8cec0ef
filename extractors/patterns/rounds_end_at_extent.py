"""Threads that stride over a row and stop where it ends, and blocks that leave outside."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.padding_policy import padded
from extractors.patterns.thread_guard import leaving_blocks, placed_by_block
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.evidence import Decision
from kb.ir import Literal
from kb.ops import ATOMICS, OWN_THREAD, READS, WRITES, OpKind

BLOCKS = "early return of whole blocks"
_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_BOTH = (OpKind.AND, OpKind.BIT_AND)
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

_HELD = """__global__ void twice(const float* x, float* out, int n) {
    for (int at = threadIdx.x, i = 0; at < n && i < 4; ++i) {
        out[blockIdx.x * n + at] = 2.f * x[blockIdx.x * n + at];
        at += blockDim.x;
    }
}
"""
_BESIDE = """__global__ void twice(const float* x, float* out, int n) {
    for (int i = 0; blockDim.x * i + threadIdx.x < n; i++) {
        int at = blockIdx.x * n + blockDim.x * i + threadIdx.x;
        out[at] = 2.f * x[at];
    }
}
"""


_PLANES = """__global__ void scale(const float* x, const float* by, float* out, int n, int h) {
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += blockDim.x * gridDim.x)
        for (int i = 0; i < h; ++i) out[at * h + i] = x[at * h + i] * by[i];
}
"""


_STAGED = """__global__ void total(const float* x, float* out, int n) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        __pipeline_memcpy_async(row + i, x + blockIdx.x * n + i, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    float v = 0.f;
    for (int i = 0; i < n; ++i) v += row[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
"""


_PICKED = """__global__ void scale(const float* x, const float* by, float* out, int n, int parts) {
    __shared__ float factor[64];
    if (threadIdx.x < parts) factor[threadIdx.x] = by[threadIdx.x];
    __syncthreads();
    for (int at = threadIdx.x; at < n; at += blockDim.x)
        out[blockIdx.x * n + at] = x[blockIdx.x * n + at] * factor[0];
}
"""


_SLOT = """__global__ void put(const float* x, const int* slot, float* out, int rows) {
    int row = blockIdx.x;
    if (slot[row] < 0) return;
    out[slot[row] * 32 + threadIdx.x] = x[row * 32 + threadIdx.x];
}
"""


class RoundsEndAtExtent(Pattern):
    """A loop that begins at the own thread and goes on by the number of threads accesses memory at
    its index, up to a bound that is known at run time; and nothing else is asked of positions. Or
    whole blocks leave before it: their item lies outside, or they were handed none."""

    name = "rounds-of-threads-end-at-the-extent"
    axis = "boundary_handling"
    source = "NVIDIA, CUDA Pro Tip: Write Flexible Kernels with Grid-Stride Loops (2013)"
    matches = (
        Case(_PICKED, "loop bound"),
        Case(_PLANES, "loop bound"),
        Case(_STRIDED, "loop bound"),
        Case(_DIAGONAL, "loop bound"),
        Case(_HELD, "loop bound"),
        Case(_BESIDE, "loop bound"),
        Case(_STAGED, "loop bound"),
        Case(_SLOT, BLOCKS),
        Case(_SLOT.replace("slot[row] < 0", "row >= rows"), BLOCKS),
    )
    near_misses = (
        NearMiss(_HELD.replace("at < n && i < 4", "i < 4"), why="a number of rounds, no bound"),
        NearMiss(_STRIDED.replace("at < n", "at < 4096"), why="nothing lies outside"),
        NearMiss(_CHUNKS, why="all threads of a block go on together, past the end too"),
        NearMiss(
            _DIAGONAL.replace("x[row * T + at]", "x[row]").replace("out[row * T + at]", "out[row]"),
            why="no access goes along",
        ),
        NearMiss(
            _STRIDED.replace("out[at] =", "if (blockIdx.y * 4 + threadIdx.y < n) out[at] ="),
            why="a branch asks for another position: that is told",
        ),
        NearMiss(
            _SLOT.replace("slot[row] < 0", "slot[row] < 7"),
            why="a kind of item, none outside of anything",
        ),
        NearMiss(
            _SLOT.replace("slot[row] < 0", "slot[0] > rows"),
            why="all blocks leave or none",
        ),
        NearMiss(ADD_THREADS, why="every thread has one element"),
        NearMiss(ROW_NORM_THREADS, why="lanes outside have a value: told with their padding"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        loops = {n: 0 for n in facts.threads.of(OpKind.FOR) if _ends_by_thread(facts, n)}
        for node in facts.threads.of(OpKind.WHILE):
            place = _held_by_thread(facts, node)
            if place is not None:
                loops[node] = place
        if loops:
            touching = [
                n
                for n in facts.threads.of(*READS, *WRITES, *ATOMICS, OpKind.ASYNC_COPY)
                if n.op.attribute("space") != "shared"
            ]
            found = [
                loop
                for loop, place in loops.items()
                if any(_along(facts, n, loop, place) for n in touching)
            ]
            # Rounds of the whole grid end at the problem, however loads inside of them are padded.
            grid = [n for n in loops if _over_grid(facts, n) and any(t.inside(n) for t in touching)]
            found = grid if padded(facts) or not found else found
            loops = {} if not found or placed_by_block(facts) else dict.fromkeys(found, 0)
        if blocks := leaving_blocks(facts):
            yield self.decide(facts, BLOCKS, [*blocks, *loops])
        elif loops:
            yield self.decide(facts, "loop bound", loops)


def _ends_by_thread(facts: Facts, loop: Node) -> bool:
    """True for a range from the own thread, in steps of more than one, to what only the launch
    tells."""
    graph = facts.threads
    made = graph.producer(loop.op.inputs[0])
    if made is None or made.op.kind != OpKind.RANGE:
        return False
    low, high, step = (made.op.operand(role) for role in ("low", "high", "step"))
    if not graph.roots(low, *OWN_THREAD) or _number(facts, step) == 1 or high is None:
        return False
    return not graph.roots(high, *OWN_THREAD) and _of_launch(facts, high)


def _over_grid(facts: Facts, loop: Node) -> bool:
    """True for steps of as many as the grid has threads, along their first axis."""
    graph = facts.threads
    made = graph.producer(loop.op.inputs[0]) if loop.op.kind == OpKind.FOR else None
    step = made.op.operand("step") if made is not None else None
    if step is None or not graph.roots(step, OpKind.NUM_BLOCKS):
        return False
    return any(_number(facts, n.op.inputs[0]) == 0 for n in graph.roots(step, OpKind.BLOCK_THREADS))


def _held_by_thread(facts: Facts, loop: Node) -> int | None:
    """Which carried value of a `while` loop goes on from the own thread, or is counted beside it,
    up to what only the launch tells; None when the loop asks something else."""
    graph, test = facts.threads, loop.op.regions[0]
    carried = [one.name for one in test.arguments]
    inits = [value for role, value in loop.op.operands if role == "init"]
    end = test.terminator
    condition = end.inputs[0] if end is not None and end.inputs else ""
    asked = graph.upstream(condition, lambda n: n.op.kind not in _BOTH)
    for comparison in (n for n in asked if n.op.kind in _ORDERED):
        for side, other in (comparison.op.inputs[:2], comparison.op.inputs[1::-1]):
            if graph.roots(other, *OWN_THREAD) or not _of_launch(facts, other):
                continue
            for place, (name, init) in enumerate(zip(carried, inits, strict=False)):
                beside = graph.roots(side, *OWN_THREAD) if side != name else []
                if _reaches(facts, side, name) and (beside or graph.roots(init, *OWN_THREAD)):
                    return place
    return None


def _of_launch(facts: Facts, bound: str) -> bool:
    """True for a bound that is made of what only the launch tells."""
    graph = facts.threads
    names = [bound] if graph.producer(bound) is None else []
    names += [v for n in graph.upstream(bound) for v in n.op.inputs if graph.producer(v) is None]
    known = {*facts.constexprs}
    of_grid = bool(graph.roots(bound, OpKind.BLOCK_ID, *READS))
    return of_grid or any(name not in known for name in names)


def _number(facts: Facts, value: str | None) -> Literal:
    made = facts.threads.producer(value)
    return made.op.attribute("value") if made is not None else None


def _along(facts: Facts, access: Node, loop: Node, place: int) -> bool:
    """True when an access moves with a loop, and no loop of run-time rounds lies between."""
    if not access.inside(loop):
        return False
    inner = [n for n in access.loops if n.op.kind in LOOPS and n.inside(loop)]
    ranges = [facts.threads.producer(n.op.inputs[0]) if n.op.inputs else None for n in inner]
    if any(r is None or r.op.kind != OpKind.STATIC_RANGE for r in ranges):
        return False
    index = loop.op.regions[-1].arguments[place].name
    address = access.op.operand("pointer") or next(iter(access.op.inputs), "")
    return _reaches(facts, address, index)


def _reaches(facts: Facts, value: str, index: str) -> bool:
    """True when a value is computed from another one."""
    if value == index:
        return True
    return any(index in node.op.inputs for node in facts.threads.upstream(value))
