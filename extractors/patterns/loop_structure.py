"""How many loops there are, and what they are for."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import DECODE_PART, TWO_PRODUCTS
from extractors.patterns.cases_rows import (
    ADD_POINTER,
    NORM_PERSISTENT,
    ROW_NORM,
    ROW_NORM_CHUNKS,
    SOFTMAX_CHUNKS,
)
from extractors.patterns.cases_rows_kept import STAGED_SOFTMAX_THREADS
from extractors.patterns.cases_rows_pointer import ADD, ROW_NORM_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, COLUMNS_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_tensors import FLASH_ANEW, FLASH_TENSORS
from extractors.patterns.cases_threads import PRODUCT_BLOCKED_THREADS
from extractors.patterns.cases_walks import GROUP, LINEAR, LINEAR_APART, ROWS_WALKED_THREADS
from extractors.patterns.fast_path import ITEMS, simpler_way
from extractors.patterns.narrow_rest import REST, rest_loops
from extractors.patterns.scans import SCAN_POINTER, SCAN_TILE
from extractors.patterns.static_unrolling import OFFSETS
from kb.analysis.carried_scans import SCANS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role, persistent
from kb.analysis.loops_told import last_first, picks
from kb.analysis.own_code import own
from kb.analysis.stages import partials_joined, second_stage, tree_steps
from kb.evidence import Decision
from kb.ir import ParameterKind, walk
from kb.ops import ATOMICS, READS, WRITES, OpKind

_NUMBERS = {1: "one loop", 2: "two loops (two-pass)", 3: "three loops"}
_APART = "two loops, each over arrays of its own"
_SPLIT = "split loops"
_VECTORS_FIRST = "one loop over vectors, one over the rest"
_VECTORS = {1: "one loop", 2: "two loops", 3: "three loops"}

_COUNTED = frozenset({OpKind.FLOOR_DIV, OpKind.CEIL_DIV})
"""What makes a number of rounds that a thread counts."""
_UNROLLED = """template <int W>
__global__ void turn(const float* x, float* out) {
    float v[W];
    float w[W];
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * W;
#pragma unroll
    for (int i = 0; i < W; ++i) v[i] = x[at + i];
#pragma unroll
    for (int i = 0; i < W; ++i) w[i] = v[i] * 2.f + v[i ^ 1];
#pragma unroll
    for (int i = 0; i < W; ++i) out[at + i] = w[i];
}
"""
_WORKING = """__global__ void turn(const float* x, float* out, int width) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i * width + at] = x[i * width + at] * 2.f;
}
"""
_LANES = """__global__ void turn(const float4* x, float4* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = x[at];
    float w[4] = {v.x, v.y, v.z, v.w};
    for (int i = 0; i < 4; ++i) w[i] = w[i] * 2.f;
    out[at] = make_float4(w[0], w[1], w[2], w[3]);
}
"""
_CHUNK = """__global__ void turn(const float* x, float* out, int n, int chunk) {
    int first = blockIdx.y * chunk, last = min(first + chunk, n);
    for (int i = first + threadIdx.x; i < last; i += blockDim.x)
        out[blockIdx.x * n + i] = x[blockIdx.x * n + i] * 2.f;
}
"""
_JOINED = """__global__ void join(const float* x, const float* y, const float* scale, float* out,
                     int n, int m) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[blockIdx.x * (n + m) + i] = x[blockIdx.x * n + i] * *scale;
    for (int i = threadIdx.x; i < m; i += blockDim.x)
        out[blockIdx.x * (n + m) + n + i] = y[blockIdx.x * m + i] * *scale;
}
"""
_CALLED = """__global__ void turn(const float* x, float* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = found(x, at);
}
"""
_EITHER = (
    POINTER
    + """
@triton.jit
def move(x, y, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    if row % 2 == 0:
        for j in range(0, n, T):
            tl.store(out + row * n + j + at, tl.load(x + row * n + j + at))
    else:
        for j in range(0, n, T):
            tl.store(out + row * n + j + at, tl.load(y + row * n + j + at))
"""
)
_FILLED = (
    POINTER
    + """
@triton.jit
def move(x, out, marks, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    if tl.load(marks + row) == 0:
        for j in range(0, n, T):
            tl.store(out + row * n + j + at, 0.0)
        return
    for j in range(0, n, T):
        tl.store(out + row * n + j + at, tl.load(x + row * n + j + at))
"""
)
_UNROLLED_LANES = _LANES.replace("    for", "#pragma unroll\n    for")


class LoopStructure(Pattern):
    """Loops over chunks of a reduced axis, and, but of threads, over work items around; or none."""

    name = "loops-over-the-reduced-axis"
    axis = "loop_structure"
    source = "tilelore catalogue, axis loop_structure"
    matches = (
        Case(ROW_NORM, "no loop (resident)"),
        Case(ADD_POINTER, "no loop"),
        Case(ADD, "no loop"),
        Case(OFFSETS, "no loop"),
        Case(ATTENTION, "one loop"),
        Case(ROW_NORM_CHUNKS, "two loops (two-pass)"),
        Case(SOFTMAX_CHUNKS, "three loops"),
        Case(STAGED_SOFTMAX_THREADS, "three loops"),
        Case(TWO_PRODUCTS, _APART),
        Case(GROUP, "two loops (two-pass)"),
        Case(LINEAR, _SPLIT),
        Case(FLASH_TENSORS, _SPLIT),
        Case(_JOINED, _APART),
        Case(_EITHER, "one loop"),
        Case(_FILLED, "one loop"),
        Case(NORM_PERSISTENT, "persistent outer loop"),
        Case(ROWS_WALKED_THREADS, "one loop"),
        Case(ROWS_WALKED_THREADS, "one loop"),
        Case(ROW_NORM_POINTER, "no loop (resident)"),
        Case(ROW_NORM_THREADS, "no loop (resident)"),
        Case(ADD_THREADS, "no loop"),
        Case(_UNROLLED, "no loop"),
        Case(SCAN_TILE, "no loop (resident)"),
        Case(SCAN_POINTER, "no loop (resident)"),
        Case(_WORKING, "one loop"),
        Case(PRODUCT_BLOCKED_THREADS, "one loop"),
        Case(_LANES, "one loop over the vector"),
        Case(_CHUNK, "one loop"),
        Case(REST, _VECTORS_FIRST),
        Case(DECODE_PART, "one loop"),
        Case(
            vary(
                DECODE_PART,
                ("    slot = ", "    for _ in range(tl.where(low < high, 1, 0)):\n        slot = "),
                ("    tl.store(out", "        tl.store(out"),
                ("    tl.store(side", "        tl.store(side"),
            ),
            "one loop",
        ),
        Case(ITEMS, "one loop, or a simpler way"),
    )
    near_misses = (
        NearMiss(_FILLED, why="the first loop reads nothing", value="two loops (two-pass)"),
        NearMiss(NORM_PERSISTENT, why="a loop over rows", value="no loop"),
        NearMiss(REST, why="no element is met twice", value="two loops (two-pass)"),
        NearMiss(_JOINED, why="two arrays", value="two loops (two-pass)"),
        NearMiss(_CHUNK, why="elements of a part of a row", value="persistent outer loop"),
        NearMiss(ROW_NORM_CHUNKS, why="both loops read the row", value=_APART),
        NearMiss(GROUP, why="channels of one group, no items", value="persistent outer loop"),
        NearMiss(FLASH_ANEW, why="the second loop begins anew", value=_SPLIT),
        NearMiss(LINEAR_APART, why="the second loop begins anew", value=_SPLIT),
        NearMiss(TWO_PRODUCTS, why="no row is read twice", value="two loops (two-pass)"),
        NearMiss(PRODUCT_POINTER, why="a loop over the contracted axis", value="no loop"),
        NearMiss(_UNROLLED_LANES, why="no loop runs", value="one loop over the vector"),
        NearMiss(_CALLED, why="a call that nobody can read takes the array: it may have a loop"),
        NearMiss(COLUMNS_THREADS, why="one pass, then parts joined", value="two loops (two-pass)"),
        NearMiss(ROWS_WALKED_THREADS, why="the grid shows it", value="persistent outer loop"),
        NearMiss(_UNROLLED, why="no loop runs over the vector", value="one loop over the vector"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        outer = [
            loop
            for loop in facts.loops
            if persistent(loop, facts.values)
            or (
                loop in facts.item_loops
                and not _around(facts, loop)
                and (loop in facts.rolled_loops or not facts.of_threads)
                and not facts.contractions
                and not loop.of(Role.RUNNING_MAXIMUM)
                and not _shared_by_threads(facts, loop)
                and _makes_results(facts, loop)
            )
        ]
        inner = [x for x in facts.rolled_loops if x not in outer and not self._nested(x, outer)]
        inner = [loop for loop in inner if not self._after_products(facts, loop)]
        inner = self._passes(facts, inner)
        inner = [loop for loop in inner if not self._fills(facts, loop)] or inner
        inner = [loop for loop in inner if not picks(facts, loop)] or inner
        for loop in outer:
            if not (inner and facts.of_threads and persistent(loop, facts.values)):
                yield self.decide(facts, "persistent outer loop", (loop.node,))
        heads: list[Where] = [loop.node for loop in inner]
        if not facts.of_threads and any(_around(facts, loop) for loop in inner):
            heads += [x.node for x in facts.rolled_loops if {*x.node.loops} & {*heads}]
        if facts.of_threads:
            bounds = [facts.graph.producer(loop.high) for loop in inner]
            heads += [n for n in bounds if n is not None and n.op.kind in _COUNTED]
            heads += [n for loop in inner for n in last_first(facts, loop)]
        reduced = [*facts.reductions, *facts.contractions, *facts.graph.of(*SCANS)]
        if inner:
            way = _one_way(inner)
            value = _NUMBERS.get(len(way), "several loops")
            value = _APART if _apart(facts, way) else value
            value = _SPLIT if _goes_on(facts, way) else value
            rest = {n.op.span for n in rest_loops(facts)}
            if len(way) == 2 and way[1].node.op.span in rest and way[0].node.op.span not in rest:
                value = _VECTORS_FIRST
            beside = [n for n in reduced if all(n.excludes(loop.node) for loop in inner)]
            if beside and not outer:
                value = f"{value}, or no loop (resident)"
                heads += self._held(facts, beside)
            simpler = simpler_way(facts)
            value = f"{value}, or a simpler way" if simpler else value
            yield self.decide(facts, value, [*heads, *simpler])
        elif not outer and reduced:
            branches = [x.node for x in facts.loops if x not in facts.rolled_loops]
            written = _unrolled(facts) if facts.of_threads else branches
            yield self.decide(facts, "no loop (resident)", [*self._held(facts, reduced), *written])
        elif facts.accesses and not (facts.of_threads or facts.loops):
            yield self.decide(facts, "no loop", facts.accesses)
        elif not outer and facts.of_threads:
            vectors = [n for n in facts.threads.of(OpKind.FOR) if self._over_vector(facts, n)]
            if vectors:
                name = _VECTORS.get(len(vectors), "several loops")
                yield self.decide(facts, f"{name} over the vector", vectors)
            elif facts.accesses and not _loops_elsewhere(facts):
                yield self.decide(facts, "no loop", [*facts.accesses, *_unrolled(facts)])

    def _passes(self, facts: Facts, loops: list[Loop]) -> list[Loop]:
        """Without the loops of threads that only join what each of them has, by shuffles or in
        shared memory, which are no pass over a row."""
        if not facts.of_threads:
            return loops
        joined = [*partials_joined(facts), *tree_steps(facts), *second_stage(facts)]
        joined += facts.threads.of(OpKind.SHUFFLE)
        joining = {n.loop.op.span for n in joined if n.loop is not None}
        if not joining:
            return loops
        kinds = READS | WRITES | ATOMICS
        shared = facts.shared
        touching = (n for n in facts.threads.nodes if n.op.kind in kinds and not shared.holds(n.op))
        joining -= {loop.op.span for n in touching for loop in n.loops}
        return [loop for loop in loops if loop.node.op.span not in joining] or loops

    def _fills(self, facts: Facts, loop: Loop) -> bool:
        """True for a loop that reads nothing, in no memory, and carries nothing: it only stores."""
        inside = [a for a in facts.accesses if a.node.inside(loop.node)]
        if not inside or loop.carried or not all(a.is_store for a in inside):
            return False
        reads = facts.threads.of(*READS) if facts.of_threads else []
        return all(x.op.span != loop.node.op.span for n in reads for x in n.loops)

    def _held(self, facts: Facts, reduced: list[Node]) -> list[Where]:
        """Reductions with the tiles that they are made of."""
        taken = [v for n in reduced for v in n.op.inputs]
        tiles = [a for a in facts.loads if facts.types.shape(a.value)]
        held = [a for a in tiles if any(facts.graph.rests_on(v, a.node) for v in taken)]
        return [*held, *reduced]

    def _over_vector(self, facts: Facts, loop: Node) -> bool:
        """A loop of the kernel's own over registers, of known length, not asked to be unrolled."""
        made = facts.threads.producer(loop.op.inputs[0])
        if made is None or made.op.kind != OpKind.RANGE or loop.loops or not own(facts, loop.op):
            return False
        ends = [facts.threads.producer(made.op.operand(role)) for role in ("low", "high")]
        known = all(n is not None and n.op.kind == OpKind.CONST for n in ends)
        touched = any(op.kind in READS | WRITES | ATOMICS for op in walk(loop.op.regions[-1]))
        return known and not touched

    def _after_products(self, facts: Facts, loop: Loop) -> bool:
        """True for a loop that hands finished sums of products to memory and carries nothing."""
        stored = any(a.is_store and a.node.inside(loop.node) for a in facts.accesses)
        last = max((p.index for p in facts.contractions), default=loop.node.index)
        return facts.of_threads and stored and not loop.carried and last < loop.node.index

    def _nested(self, loop: Loop, outer: list[Loop]) -> bool:
        """True inside another loop of the reduced axis."""
        holders = {o.node for o in outer}
        return any(node not in holders for node in loop.node.loops)


def _makes_results(facts: Facts, loop: Loop) -> bool:
    """Whether the rounds of a loop of threads load and store: one that only brings its tile in, or
    adds up, or hands results on, goes through a part of the work alone."""
    inside = [a for a in facts.accesses if a.node.inside(loop.node) and a.array]
    return not facts.of_threads or len({a.is_store for a in inside}) == 2


def _shared_by_threads(facts: Facts, loop: Loop) -> bool:
    """Whether the threads of a block go through its chunk side by side, element by element, as
    through a row: what is moved in a round lies beside what the next one moves."""
    if not facts.of_threads or loop.step is None or loop.induction is None:
        return False
    at = facts.values.expr(loop.induction).atom
    if at is None or facts.values.expr(loop.step).constant == 1:
        return False
    moved = [i for a in facts.accesses if a.node.inside(loop.node) for i in a.index]
    steps = [index.coefficient(at).constant for index in moved if at in index.top()]
    return bool(steps) and None not in steps


def _unrolled(facts: Facts) -> list[Where]:
    """The loops of a thread over what it holds, of which none is left when it runs."""
    loops = facts.threads.of(OpKind.FOR)
    return [n for n in loops if _known_rounds(facts, n)]


def _known_rounds(facts: Facts, loop: Node) -> bool:
    made = facts.threads.producer(loop.op.inputs[0])
    return made is not None and made.op.kind == OpKind.STATIC_RANGE


def _loops_elsewhere(facts: Facts) -> bool:
    """Whether a thread has a loop that runs, or calls what nobody can read with something that
    points to memory: there may be one in it."""
    graph = facts.threads
    if any(not _known_rounds(facts, n) for n in graph.of(OpKind.FOR)) or graph.of(OpKind.WHILE):
        return True
    arrays = {p.name for p in graph.function.parameters if p.kind is ParameterKind.ARRAY}
    return any(graph.core(v) in arrays for n in graph.of(OpKind.OPAQUE) for v in n.op.inputs)


def _around(facts: Facts, loop: Loop) -> bool:
    """True for a loop around others over one item of the block, which is walked a second time with
    the sum that the first walk leaves: channels of a group, each a row of chunks."""
    if facts.of_threads or loop.high is None or persistent(loop, facts.values):
        return False
    count = facts.values.expr(loop.high)
    if not facts.values.compile_time(count) or not _inner(facts, loop):
        return False
    again = [x for x in facts.rolled_loops if x.high and facts.values.expr(x.high) == count]
    first = {c.argument for x in again for c in x.carried}
    handed = any(c.init in first for x in again for y in _inner(facts, x) for c in y.carried)
    return handed and len(again) > 1


def _inner(facts: Facts, loop: Loop) -> list[Loop]:
    """The loops that a loop runs in every round."""
    return [x for x in facts.rolled_loops if x.node.loop is loop.node]


def _goes_on(facts: Facts, loops: list[Loop]) -> bool:
    """True for two loops with products over the same arrays of which one begins where the other
    ends."""
    if len(loops) != 2 or not facts.contractions:
        return False
    ends = [[v and facts.values.expr(v) for v in (x.low, x.high)] for x in loops]
    read = [{a.array for a in facts.loads if a.node.inside(x.node)} for x in loops]
    joined = any(one[1] and one[1] == other[0] for one, other in (ends, ends[::-1]))
    joined |= facts.graph.rests_on(loops[1].low or "", loops[0].node)
    return joined and read[0] == read[1]


def _apart(facts: Facts, loops: list[Loop]) -> bool:
    """True for two loops that load, and nothing from the same array but single numbers, the same
    for every round."""
    moved = [a for a in facts.loads if not all(i.constant is not None for i in a.index)]
    read = [{a.array for a in moved if a.node.inside(loop.node)} for loop in loops]
    return len(read) == 2 and all(read) and read[0].isdisjoint(read[1])


def _one_way(loops: list[Loop]) -> list[Loop]:
    """The loops of one way through the branches: where the most of them run."""
    longest = list[Loop]()
    for way in ([first] for first in loops):
        for loop in loops:
            way += [loop] if not any(loop is x or loop.node.excludes(x.node) for x in way) else []
        longest = max(longest, way, key=len)
    return sorted(longest, key=lambda x: x.node.index)
