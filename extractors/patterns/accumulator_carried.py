"""What a reduction loop carries from one iteration to the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    BACKWARD_KEYS,
    PRODUCT,
    PRODUCT_POINTER,
    TILE,
    vary,
)
from extractors.patterns.cases_kept import FOLDED
from extractors.patterns.cases_masks import SOLVED_ROWS
from extractors.patterns.cases_rows import NORM_BACKWARD, ROW_NORM, TURN
from extractors.patterns.cases_rows_pointer import LEAST, RECURRENT, TURN_POINTER
from extractors.patterns.cases_rows_threads import TURN_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.carried_sums import accumulating
from kb.analysis.counted_up import counts_up
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import begun
from kb.analysis.loops import Carried, Loop, Role, takes_least
from kb.analysis.replaced_rows import multiplied, row_replaced
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
_COLUMNS = """template <int W>
__global__ void columns(const float* x, float* part, int rows, int cols) {
    float sums[W] = {};
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
#pragma unroll
        for (int i = 0; i < W; ++i) sums[i] += x[row * cols + threadIdx.x * W + i];
    }
#pragma unroll
    for (int i = 0; i < W; ++i) part[blockIdx.x * cols + threadIdx.x * W + i] = sums[i];
}
"""
_TURNED = vary(
    PRODUCT_POINTER,
    ("        acc += tl.dot(x, y)\n",
     "        if TM < TN:\n            part = tl.trans(tl.dot(tl.trans(y), tl.trans(x)))\n"
     "        else:\n            part = tl.dot(x, y)\n        acc += part * 0.5\n"),
)  # fmt: skip
_FADED = vary(
    RECURRENT,
    ("        state += a[None, :] * b[:, None]\n",
     "        if TK > TV:\n            state *= tl.exp(a)[None, :]\n        else:\n            state *= tl.exp(b)[:, None]\n"  # noqa: E501
     "        if TK > 64:\n            state += a[None, :] * b[:, None]\n        else:\n            state += b[:, None] * a[None, :]\n"),  # noqa: E501
)  # fmt: skip
_FADED_TILE = vary(
    PRODUCT,
    ("        acc = ct.mma(x, y, acc)\n",
     "        if TM > 64:\n            acc = acc * 0.5\n        acc = acc + ct.mma(x, y, ct.zeros((TM, TN), ct.float32)) * 2.0\n"),  # noqa: E501
)  # fmt: skip
_BOTH_ADDED = vary(
    PRODUCT_POINTER,
    ("        acc += tl.dot(x, y)\n",
     "        if TM < TN:\n            acc *= 0.5\n        acc += tl.dot(x, y) * 2.0 - tl.dot(y, x)\n"),  # noqa: E501
)  # fmt: skip
_BESIDE = """__global__ void both(const float* x, float* rows, float* all, int n, int m) {
    float total[2] = {};
    for (int row = blockIdx.x; row < n; row += gridDim.x) {
        float sum = 0.f;
        for (int i = 0; i < m; ++i) sum += x[(row * m + i) * blockDim.x + threadIdx.x];
        rows[row * blockDim.x + threadIdx.x] = sum;
        for (int k = 0; k < 2; ++k) total[k] += x[row * m * blockDim.x + threadIdx.x * 2 + k];
    }
    for (int k = 0; k < 2; ++k) all[threadIdx.x * 2 + k] = total[k];
}
"""
_OWN_ROW = """template <int W>
__global__ void row(const float* x, float* out) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < W; ++i) sum += x[(blockIdx.x * blockDim.x + threadIdx.x) * W + i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""

_REPLACED = "one row replaced in every round"
_STATE = "state that every round multiplies"

MAX_DEPTH = 3
"""Loops over the elements of a thread, one inside the other, that a sum is followed through."""

MAX_HANDED = 64
"""Values that are looked at on the way from one loop to the next."""

_HANDING = VIEWS | CASTS | {OpKind.IF, OpKind.SELECT, OpKind.MUL, OpKind.FOR, OpKind.WHILE}
_EXTREMES = (Role.RUNNING_MAXIMUM, Role.RUNNING_MINIMUM)
_GROWING = (Role.ACCUMULATOR, Role.SUM, Role.RUNNING_SUM, *_EXTREMES)


_LEAST_TILE = (
    TILE
    + """
@ct.kernel
def least(x, out, n: int, T: Int):
    row = ct.bid(0)
    top = ct.full((1, T), math.inf, dtype=ct.float32)
    for i in range(ct.cdiv(n, T)):
        v = ct.load(x, index=(row, i), shape=(1, T))
        top = ct.minimum(top, v)
    ct.store(out, index=(row, 0), tile=top)
"""
)


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
        Case(_COLUMNS, "single accumulator"),
        Case(_BESIDE, "single accumulator"),
        Case(_TURNED, "single accumulator"),
        Case(_FADED, "single accumulator"),
        Case(_FADED_TILE, "single accumulator"),
        Case(_BOTH_ADDED, "single accumulator"),
        Case(SOLVED_ROWS, _REPLACED),
        Case(FOLDED, _STATE),
    )
    near_misses = (
        NearMiss(
            vary(SOLVED_ROWS, ("row[None, :], s)", "row[None, :], 0.0)")),
            why="only the new row stays",
        ),
        NearMiss(vary(FOLDED, ("dot(acc, a)", "dot(b, a)")), why="made anew", value=_STATE),
        NearMiss(
            vary(LEAST, ("tl.where(low < top, low, top)", "tl.where(low < top, top, low)")),
            why="the larger one is kept",
            value="running minimum",
        ),
        NearMiss(
            vary(_LEAST_TILE, ("ct.minimum(top, v)", "ct.minimum(v, 0.0)")),
            why="nothing is carried",
        ),
        NearMiss(vary(RECURRENT, ("state += a", "state = a")), why="every round begins anew"),
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
        NearMiss(
            vary(
                PRODUCT_POINTER,
                ("        pa += TK\n", "        if TM > 64:\n            pa += TK\n"),
                ("        pb += TK * sb\n", "        if TN > 64:\n            pb += TK * sb\n"),
            ),
            why="pointers that branches move on are no sums",
            value="several accumulators",
        ),
        NearMiss(_OWN_ROW, why="no loop is left of the elements that a thread holds"),
        NearMiss(_ELEMENTS, why="elements of an array, each written once"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        # What one thread adds up of the partial results of warps is the second stage of a sum.
        stages = second_stage(facts) if facts.of_threads else []
        combined = {row.name for node in stages for row in node.op.results}
        found: dict[str, list[Node | None]] = {}
        grown = {loop: self._grown(facts, loop, combined) for loop in facts.rolled_loops}
        for loop, states in grown.items():
            inner = [o for o in grown if grown[o] and o.node.inside(loop.node)]
            if inner:
                # What loops inside add up is told there; what does not rest on it is the loop's.
                states = [
                    c for c in states if _apart(facts, loop, c, inner) or _kept(facts, c, inner)
                ]
            if states:
                found.setdefault(_value(facts, loop, states), []).extend(_where(facts, states))
        for loop in facts.rolled_loops:
            if states := [c for c in loop.carried if row_replaced(facts, c)]:
                found.setdefault(_REPLACED, []).extend(_where(facts, states))
            if states := multiplied(facts, loop):
                found.setdefault(_STATE, []).extend(_where(facts, states))
        for value, where in found.items():
            yield self.decide(facts, value, where)

    def _grown(self, facts: Facts, loop: Loop, combined: set[str]) -> list[Carried]:
        """What a loop adds up of what is loaded or multiplied; not counters, not elements."""
        return [
            c
            for c in _states(facts, loop)
            if not _elements(facts, loop, c)
            and not counts_up(facts, loop, c)
            and (c.next not in combined or any(a.node.inside(loop.node) for a in facts.loads))
        ]


def _apart(facts: Facts, loop: Loop, state: Carried, inner: list[Loop]) -> bool:
    """Whether registers that a thread carries rest on nothing that loops inside add up."""
    kind = next((r.type for r in loop.node.op.results if r.name == state.result), None)
    first = facts.graph.producer(begun(facts, state.init))
    filled = first is not None and first.op.kind not in (OpKind.UNDEF, OpKind.LOAD)
    held = facts.of_threads and filled and kind is not None and bool(kind.shape)
    return held and not any(facts.graph.rests_on(state.next, o.node) for o in inner)


def _kept(facts: Facts, state: Carried, inner: list[Loop]) -> bool:
    """Whether no loop inside goes on with a tile that a loop adds to by itself."""
    if facts.of_threads or not facts.types.shape(state.argument):
        return False
    handed = {v for o in inner for c in o.carried for v in _handed(facts, c.init)}
    return state.argument not in handed


def _elements(facts: Facts, loop: Loop, state: Carried) -> bool:
    """True for a register array that a loop fills element by element and that is unrolled; not when
    a loop around it carries the array on."""
    if loop in facts.rolled_loops or state.init in facts.graph.arguments:
        return False
    held = next((r.type for r in loop.node.op.results if r.name == state.result), None)
    return held is not None and bool(held.shape)


def _states(facts: Facts, loop: Loop) -> list[Carried]:
    """What a loop adds up or takes the maximum of, itself or by the loops over the elements of a
    thread inside of it."""
    return [
        c if c.role is role else replace(c, role=role)
        for c in loop.carried
        if (role := _role(facts, loop, c)) in _GROWING
    ]


def _role(facts: Facts, loop: Loop, state: Carried, depth: int = 0) -> Role:
    if state.role is Role.OTHER and takes_least(facts.graph, state.argument, state.next):
        return Role.RUNNING_MINIMUM
    if state.role is not Role.OTHER or not facts.of_threads or depth >= MAX_DEPTH:
        return state.role
    rolled = facts.rolled_loops
    unrolled: dict[Node | None, Loop] = {
        o.node: o for o in facts.loops if o.node.inside(loop.node) and o not in rolled
    }
    if not unrolled:
        return state.role
    for value in _handed(facts, state.next):
        node = facts.graph.producer(value)
        for c in unrolled[node].carried if node in unrolled else ():
            if c.result == value and state.argument in _handed(facts, c.init):
                role = _role(facts, unrolled[node], c, depth + 1)
                if role in _GROWING:
                    return role
    return state.role


def _handed(facts: Facts, value: str) -> list[str]:
    """Values that are handed on to `value`, perhaps scaled; it first."""
    pending, seen = [value], {value}
    for current in pending:
        node = facts.graph.producer(current)
        if len(pending) > MAX_HANDED or (node is not None and node.op.kind not in _HANDING):
            continue
        for feed in facts.graph.feeds(current) if node is not None else ():
            if feed not in seen:
                seen.add(feed)
                pending.append(feed)
    return pending


def _value(facts: Facts, loop: Loop, states: list[Carried]) -> str:
    grown = [c for c in states if c.role is Role.ACCUMULATOR]
    roles = {c.role for c in states}
    if Role.RUNNING_MAXIMUM in roles:
        if grown:
            return "accumulator with running maximum and running sum"
        if Role.RUNNING_SUM in roles:
            return "running maximum and running sum"
        return "running maximum"
    if Role.RUNNING_MINIMUM in roles:
        return "running minimum"
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
    first = [_first(facts, begun(facts, c.init)) for c in states]
    last = [facts.graph.producer(c.next) for c in states]
    return first + [
        n if n is None or not n.op.regions else _inner(facts, n, c)
        for n, c in zip(last, states, strict=True)
    ]


def _first(facts: Facts, value: str) -> Node | None:
    """What makes the first value, in the branch that makes it."""
    made = facts.graph.producer(value)
    while made is not None and made.op.kind == OpKind.IF:
        inner = [facts.graph.producer(v) for v in facts.graph.feeds(made.result)]
        made = next((n for n in inner if n is not None and n.op.kind != OpKind.UNDEF), None)
    return made


def _inner(facts: Facts, node: Node, state: Carried) -> Node | None:
    """The operation inside a branch that makes the next value."""
    for found in facts.graph.upstream(state.next):
        if not found.op.regions:
            return found
    return node
