"""Whether lanes are combined in every iteration, or kept apart and combined once."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION_POINTER, POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ROW_NORM, ROW_NORM_CHUNKS, SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import (
    LEAST,
    ROW_NORM_CHUNKS_POINTER,
    ROW_NORM_POINTER,
    STEPS,
)
from extractors.patterns.cases_rows_threads import (
    ATOMIC_COLUMNS_THREADS,
    ROW_NORM_CHUNKS_THREADS,
    ROW_NORM_THREADS,
)
from extractors.patterns.product_summed import BY_FLAG
from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role, grower, persistent
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_EXTREMES = frozenset({
    OpKind.REDUCE_MIN, OpKind.REDUCE_MAX, OpKind.ARGMIN, OpKind.ARGMAX, OpKind.REDUCE,
})  # fmt: skip
_ONCE = "accumulate in the program, one atomic addition after the loop"
_STEPS = frozenset({OpKind.ADD, OpKind.FMA, OpKind.MAXIMUM})
_MADE = frozenset({
    OpKind.IF, OpKind.ADD, OpKind.FOR, OpKind.WHILE, OpKind.VECTOR, OpKind.TUPLE,
})  # fmt: skip
_TAKEN = (Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM)
"""What a loop carries that a reduction in it feeds."""
_KEPT = (*_TAKEN, Role.RUNNING_MINIMUM, Role.OTHER)
"""What a loop may carry lane by lane."""
_GROUPS = """import cuda.tile as ct
Int = ct.Constant[int]

@ct.kernel
def spread(x, out, N: Int, G: Int, T: Int):
    g = ct.bid(0)
    total = ct.full((T,), 0.0, dtype=ct.float32)
    for c in range(G):
        for i in range(ct.cdiv(N, T)):
            v = ct.gather(x, (g * G + c, i * T + ct.arange(T, dtype=ct.int32)))
            total = total + v * v
    ct.scatter(out, g, ct.sum(total, 0))
"""
_PAIRS = """import triton
import triton.language as tl

@triton.jit
def both(a, m, b, n):
    return a * b, m + n

@triton.jit
def rows(x, out, total, n, T: tl.constexpr):
    a = tl.full([T], 1.0, tl.float32)
    m = tl.zeros([T], tl.float32)
    for i in range(0, n, T):
        v = tl.load(x + i + tl.arange(0, T))
        a = a * v
        m = m + v
    a, m = tl.reduce((a, m), 0, both)
    tl.store(out, a)
    tl.store(total, m)
"""
_GROUPS_ROWS = vary(
    _GROUPS,
    ("total = ct.full((T,), 0.0, dtype=ct.float32)", "total = 0.0"),
    ("total = total + v * v", "total = total + ct.sum(v * v, 0)"),
    ("ct.sum(total, 0))", "total)"),
)


_LATE = (
    ("tot = tl.zeros([TM], tl.float32)", "tot = tl.zeros([TM, TN], tl.float32)"),
    ("tot * fade + tl.sum(p, 1)", "tot * fade[:, None] + p"),
    ("acc / tot[:, None]", "acc / tl.sum(tot, 1)[:, None]"),
)


_OWN_THREADS = """__global__ void lengths(const float* x, float* out) {
    float own[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) own[j] = x[(blockIdx.x * 32 + threadIdx.x) * 4 + j];
    float s = 0.f;
    #pragma unroll
    for (int j = 0; j < 4; ++j) s += own[j] * own[j];
    for (int w = 16; w > 0; w /= 2) s += __shfl_xor_sync(0xffffffff, s, w);
    out[blockIdx.x] = s;
}
"""


_ONCE_THREADS = """__global__ void columns(const float* dy, float* db, int rows, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float acc = 0.f;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) acc += dy[row * n + at];
    atomicAdd(&db[at], acc);
}
"""
_ONCE_POINTER = (
    POINTER
    + """
@triton.jit
def columns(dy, out, rows, n, T: tl.constexpr):
    at = tl.arange(0, T)
    acc = tl.zeros([T], tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        acc += tl.load(dy + row * n + at)
    tl.atomic_add(out + at, acc)
"""
)


class DeferredCrossLaneReduction(Pattern):
    """A carried tile is updated lane by lane and reduced after the loop, or added to memory once
    behind it, or threads join elements of their own before they meet; or a reduction feeds the
    carry, or sums over the carried state and is stored every step."""

    name = "deferred-cross-lane-reduction"
    axis = "reduction_placement"
    source = "Harris, Optimizing Parallel Reduction in CUDA: threads sum before they exchange"
    matches = (
        Case(ROW_NORM_CHUNKS, "accumulate lane-wise, reduce once after the loop"),
        Case(SOFTMAX_CHUNKS, "reduce every iteration to a scalar/row"),
        Case(ROW_NORM_CHUNKS_POINTER, "accumulate lane-wise, reduce once after the loop"),
        Case(ROW_NORM_CHUNKS_THREADS, "accumulate lane-wise, reduce once after the loop"),
        Case(vary(ATTENTION_POINTER, *_LATE), "accumulate lane-wise, reduce once after the loop"),
        Case(ATTENTION_POINTER, "reduce every iteration to a scalar/row"),
        Case(_GROUPS, "accumulate lane-wise, reduce once after the loop"),
        Case(_GROUPS_ROWS, "reduce every iteration to a scalar/row"),
        Case(LEAST, "reduce every iteration to a scalar/row"),
        Case(STEPS, "reduce every iteration to a scalar/row"),
        Case(BY_FLAG, "accumulate lane-wise, reduce once after the loop"),
        Case(_PAIRS, "accumulate lane-wise, reduce once after the loop"),
        Case(_ONCE_THREADS, _ONCE),
        Case(_ONCE_POINTER, _ONCE),
        Case(_OWN_THREADS, "accumulate lane-wise, reduce once after the loop"),
    )
    near_misses = (
        NearMiss(
            _GROUPS_ROWS,
            why="every chunk is reduced on its own",
            value="accumulate lane-wise, reduce once after the loop",
        ),
        NearMiss(
            vary(LEAST, ("tl.min(v, axis=0)", "v"), ("row, top)", "row, tl.min(top, axis=0))")),
            why="the least of every lane is kept",
            value="reduce every iteration to a scalar/row",
        ),
        NearMiss(
            vary(STEPS, ("tl.sum(state * x[:, None], axis=0)", "x + z")),
            why="no step sums anything",
        ),
        NearMiss(
            vary(ATTENTION_POINTER, *_LATE),
            why="the maximum alone, which every rescaling asks for",
            value="reduce every iteration to a scalar/row",
        ),
        NearMiss(
            vary(
                _OWN_THREADS,
                (
                    "for (int j = 0; j < 4; ++j) s += own[j] * own[j];",
                    "float v = x[blockIdx.x * 32 + threadIdx.x]; s += v * v;",
                ),
            ),
            why="one element of a thread",
        ),
        NearMiss(
            vary(
                _ONCE_POINTER,
                ("    tl.atomic_add(out + at, acc)", "        tl.atomic_add(out + at, acc)"),
            ),
            why="added in every round",
            value=_ONCE,
        ),
        NearMiss(ATOMIC_COLUMNS_THREADS, why="added to shared memory", value=_ONCE),
        NearMiss(ROW_NORM, why="no loop runs over the row"),
        NearMiss(
            ATTENTION_POINTER,
            why="the sum is one number per row in every iteration",
            value="accumulate lane-wise, reduce once after the loop",
        ),
        NearMiss(PRODUCT, why="a product, no reduction"),
        NearMiss(ROW_NORM_POINTER, why="no loop runs over the row"),
        NearMiss(ROW_NORM_THREADS, why="no loop runs over the row"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        deferred: list[Node] = []
        every: list[Node] = []
        for loop in facts.loops:
            late: list[Node] = []
            each: list[Node] = []
            stored = any(a.node.inside(loop.node) for a in facts.stores)
            items = stored and persistent(loop, facts.values)
            for state in loop.of(*_KEPT):
                made = grower(facts.graph, state.next)
                after = self._after(facts, loop, state.result)
                if items and facts.types.shape(state.argument) and not after:
                    continue
                inside = [
                    r
                    for r in facts.reductions
                    if r.loop is loop.node
                    and facts.graph.rests_on(state.next, r)
                    and (r.op.kind == OpKind.REDUCE_MAX) == (state.role is Role.RUNNING_MAXIMUM)
                ]
                always = [r for r in inside if not _by_chance(r, loop)]
                lanes = set(facts.types.shape(state.result)) - {"1"}
                if after and lanes and not always:
                    late += [
                        n for n in (facts.graph.producer(state.init), made, *after) if n is not None
                    ]
                told = inside and state.role in _TAKEN
                if told and (self._scores(facts, inside) or self._row(facts, inside)):
                    each += inside
            # A running maximum needs its reduction anyway: what is decided is the sum.
            every += [r for r in each if not late or r.op.kind != OpKind.REDUCE_MAX]
            deferred += late
            every += self._extremes(facts, loop) or self._steps(facts, loop)
        deferred += _of_vectors(facts)
        if deferred:
            yield self.decide(facts, "accumulate lane-wise, reduce once after the loop", deferred)
        if once := self._added_once(facts):
            yield self.decide(facts, _ONCE, once)
        if every:
            yield self.decide(facts, "reduce every iteration to a scalar/row", every)

    def _added_once(self, facts: Facts) -> list[Node]:
        """Sums that loops carry and that are added to memory once, by an atomic operation behind
        the loop: where they begin, the step, the addition."""
        atomics = [] if facts.contractions else [
            s for s in facts.stores
            if s.node.op.kind == OpKind.ATOMIC_ADD and s.node.op.attribute("space") != "shared"
        ]  # fmt: skip
        found: list[Node | None] = []
        for loop in facts.loops if atomics else ():
            later = [s for s in atomics if not s.node.inside(loop.node)]
            for state in loop.of(*_KEPT) if later else ():
                ends = [s.node for s in later if self._added_to(facts, s.value, state.result)]
                if ends:
                    step = grower(facts.graph, state.next)
                    found += [facts.graph.producer(state.init), step, *ends]
        return [n for n in found if n is not None]

    def _extremes(self, facts: Facts, loop: Loop) -> list[Node]:
        """Reductions of chunks of a row to the least or the largest, and its place, of which the
        loop keeps the best."""
        if facts.contractions:
            return []
        found = [r for r in facts.reductions if r.loop is loop.node and r.op.kind in _EXTREMES]
        kept = [c.next for c in loop.of(Role.OTHER)]
        best = [r for r in found if any(facts.graph.rests_on(v, r) for v in kept)]
        return best if best and self._row(facts, best) else []

    def _steps(self, facts: Facts, loop: Loop) -> list[Node]:
        """Sums over an axis of the state of a recurrence, stored or taken back into it every
        step."""
        if facts.contractions or facts.of_threads or not facts.reductions:
            return []
        tiles = [c for c in loop.carried if len(facts.types.shape(c.argument)) > 1]
        sums = [r for r in facts.reductions if r.loop is loop.node] if tiles else []
        stores = [a for a in facts.stores if a.node.inside(loop.node)] if sums else []
        return [
            r
            for r in sums
            if any(leads(facts.graph, r.op.inputs[0], c.argument) for c in tiles)
            and any(facts.graph.rests_on(s.value, r) for s in stores)
        ]

    def _after(self, facts: Facts, loop: Loop, value: str) -> list[Node]:
        """Reductions of the final tile itself."""
        return [
            r
            for r in facts.reductions
            if r.op.kind in REDUCTIONS and not r.inside(loop.node)
            and self._added_to(facts, r.op.inputs[0], value)
        ]  # fmt: skip

    def _added_to(self, facts: Facts, value: str, tile: str, limit: int = 8) -> bool:
        """True for a tile itself, and for what a branch, an addition or a loop around makes of
        it."""
        core = facts.graph.core(value)
        if core == tile:
            return True
        node = facts.graph.producer(core)
        if node is None or limit == 0 or node.op.kind not in _MADE:
            return False
        feeds = facts.graph.feeds(core or "")
        return any(self._added_to(facts, feed, tile, limit - 1) for feed in feeds)

    def _scores(self, facts: Facts, inside: list[Node]) -> bool:
        """True when scores of an attention are reduced to one number per query."""
        return all(
            any(
                facts.graph.rests_on(r.result, p) and p.loop is r.loop for p in facts.score_products
            )
            for r in inside
        )

    def _row(self, facts: Facts, inside: list[Node]) -> bool:
        """True when what is reduced was loaded in the loop, chunk by chunk."""
        loads = [(a, r) for r in inside for a in facts.feeding(r.op.inputs[0])]
        return not facts.contractions and any(a.loop is r.loop for a, r in loads)


def _of_vectors(facts: Facts) -> list[Node]:
    """Where threads add up, or find the largest of, the elements of a vector or an array of their
    own, from a number that is written there, before they meet: number, step and meeting."""
    found: list[Node] = []
    for met in facts.reductions if facts.of_threads else ():
        step = facts.graph.producer(facts.graph.core(met.op.inputs[0]))
        if step is None or step.op.kind not in _STEPS:
            continue
        made = [facts.graph.producer(facts.graph.core(v)) for v in step.op.inputs]
        first = [n for n in made if n is not None and n.op.kind == OpKind.CONST]
        above = facts.graph.upstream(step.result, lambda n: facts.access(n) is not None)
        if first and any(n.op.kind == OpKind.COPY for n in above):
            found += [*first, step, met]
    return found


def _by_chance(reduction: Node, loop: Loop) -> bool:
    """Whether a branch of a loop holds a reduction."""
    return any(n.op.kind == OpKind.IF and n.inside(loop.node) for n in reduction.around())
