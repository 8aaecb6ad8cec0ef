"""How a row is reduced: at once, twice in a row, over chunks, or with a rescaled state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import (
    ADD_POINTER,
    LAYER_NORM_POINTER,
    PARTIAL_SUM,
    ROW_NORM,
    ROW_NORM_CHUNKS,
    SOFTMAX,
)
from extractors.patterns.cases_rows_pointer import ADD
from extractors.patterns.cases_rows_threads import (
    ADD_THREADS,
    ROW_NORM_CHUNKS_THREADS,
    ROW_NORM_THREADS,
)
from kb.analysis.carried_sums import leads
from kb.analysis.chosen_positions import picks_one
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import partial_reductions
from kb.analysis.loops import Carried, Loop, Role, grower, updates
from kb.analysis.one_thread import of_one_thread
from kb.analysis.stages import second_stage
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, OpKind

MAX_ENDS = 32
"""Operations that one decision shows at most."""
_NUMBERS = (
    POINTER
    + """
@triton.jit
def highest(x, out, n):
    own = tl.program_id(0) * n
    top = 0.0
    for i in range(n):
        top = tl.maximum(top, tl.load(x + own + i))
    tl.store(out + tl.program_id(0), top)
"""
)
_TAPS = (
    POINTER
    + """
@triton.jit
def pool(x, out, n: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    top = tl.full([T], 0, tl.int32)
    for i in tl.static_range(n):
        v = tl.load(x + at + i)
        top = tl.where(v > top, v, top)
    tl.store(out + at, top)
"""
)

_OWN_SUM = """__global__ void sums(const float* x, float* out, int n, int m) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.f;
    for (int i = 0; i < m; ++i) sum += x[i * n + at];
    out[at] = sum;
}
"""
_LARGEST = """__global__ void largest(const float* x, float* out, int n) {
    float top = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) top = fmaxf(top, fabsf(x[blockIdx.x * n + i]));
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    if (threadIdx.x == 0) out[blockIdx.x] = top;
}
"""

_BESIDE = (
    POINTER
    + """
@triton.jit
def back(x, gy, gx, gw, n, T: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    own = tl.program_id(0) * n
    total = tl.zeros((T, N), tl.float32)
    for i in range(own, own + n, T):
        rows = i + tl.arange(0, T)
        v = tl.load(x + rows[:, None] * N + at[None, :])
        dy = tl.load(gy + rows[:, None] * N + at[None, :])
        total += v * dy
        c = tl.sum(v * dy, axis=1)
        tl.store(gx + rows[:, None] * N + at[None, :], dy - v * c[:, None])
    tl.store(gw + tl.program_id(0) * N + at, tl.sum(total, axis=0))
"""
)
_PICKED = (
    POINTER
    + """
@triton.jit
def weighted(x, w, out, n: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, T)
    own = tl.load(w + tl.program_id(0) * n + tl.arange(0, n))
    own = own / tl.sum(own, axis=0)
    total = tl.zeros((T,), tl.float32)
    for i in tl.static_range(n):
        one = tl.sum(tl.where(tl.arange(0, n) == i, own, 0.0), axis=0)
        total += one * tl.load(x + i * T + at)
    tl.store(out + tl.program_id(0) * T + at, total)
"""
)


class ReductionScheme(Pattern):
    """The reductions of a kernel, and whether one feeds the next or a loop carries them; where
    threads combine in two stages, what each of them streamed is told with the stages."""

    name = "resident-or-streamed-row-reduction"
    axis = "reduction_scheme"
    source = "Harris, Optimizing Parallel Reduction in CUDA; Milakov and Gimelshein (2018)"
    matches = (
        Case(ROW_NORM, "one reduction over a resident row"),
        Case(LAYER_NORM_POINTER, "two dependent reductions"),
        Case(SOFTMAX, "two dependent reductions"),
        Case(ROW_NORM_CHUNKS, "streamed partials then combine"),
        Case(ATTENTION, "online with rescale"),
        Case(PARTIAL_SUM, "one partial per block, combined in a second stage"),
        Case(PRODUCT, "sequential loop into an accumulator"),
        Case(ROW_NORM_THREADS, "one reduction over a resident row"),
        Case(_NUMBERS, "sequential loop into an accumulator"),
        Case(_TAPS, "sequential loop into an accumulator"),
        Case(_LARGEST, "streamed partials then combine"),
        Case(_BESIDE, "one reduction over a resident row"),
        Case(_PICKED, "one reduction over a resident row"),
        Case(_OWN_SUM, "sequential loop into an accumulator"),
    )
    near_misses = (
        NearMiss(ADD_POINTER, why="nothing is reduced"),
        NearMiss(
            vary(_NUMBERS, ("tl.maximum(top, tl.load(x + own + i))", "top + i")),
            why="a loop that counts and reads nothing",
        ),
        NearMiss(ADD, why="nothing is reduced"),
        NearMiss(
            vary(_TAPS, ("tl.store(out + at, top)", "tl.store(out + at, tl.load(x + top))")),
            why="the loop finds out where to read",
        ),
        NearMiss(ADD_THREADS, why="nothing is reduced"),
        NearMiss(
            _PICKED,
            why="the sum picks one element, and no partial sum is combined",
            value="streamed partials then combine",
        ),
        NearMiss(
            vary(_BESIDE, ("v * c[:, None]", "v")),
            why="rows are summed for nothing",
            value="two dependent reductions",
        ),
        NearMiss(_LARGEST, why="a loop", value="one reduction over a resident row"),
        NearMiss(
            _OWN_SUM.replace("sum += x", "sum = x"), why="the last element stays, nothing is added"
        ),
        NearMiss(
            ROW_NORM_CHUNKS_THREADS,
            why="told with the two stages",
            value="streamed partials then combine",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        online = [
            loop
            for loop in facts.loops
            if loop.of(Role.RUNNING_MAXIMUM) and self._rescales(facts, loop.node)
        ]
        if online:
            states = [c for loop in online for c in loop.of(Role.RUNNING_MAXIMUM, Role.RUNNING_SUM)]
            last = [r for r in facts.reductions if not r.loops and not facts.contractions]
            where = [*self._ends(facts, [c.next for c in states]), *last]
            yield self.decide(facts, "online with rescale", where)
            return
        reductions = [r for r in facts.reductions if not picks_one(facts, r)] or facts.reductions
        carried = self._partials(facts, reductions)
        grown = [c for loop in facts.loops for c in loop.of(Role.ACCUMULATOR)]
        if carried and not facts.contractions:
            yield from self._beside(facts, reductions, carried)
        elif grown:
            value = "sequential loop into an accumulator"
            where = self._ends(facts, [c.next for c in grown])
            where += [n for c in grown for n in self._added(facts, c)]
            yield self.decide(facts, value, where)
        elif combining := self._streamed(facts):
            if not second_stage(facts):
                yield self.decide(facts, "streamed partials then combine", combining)
        elif reductions:
            yield self._of_rows(facts, reductions)
        elif facts.of_threads:
            if alone := of_one_thread(facts):
                yield self.decide(facts, "sequential loop into an accumulator", alone)
        else:
            single = [
                c
                for loop in facts.loops
                for c in loop.of(Role.SUM, Role.RUNNING_MAXIMUM)
                if loop not in facts.item_loops and self._reads(facts, loop, c)
            ]
            if single:
                value = "sequential loop into an accumulator"
                yield self.decide(facts, value, self._ends(facts, [c.next for c in single]))

    def _partials(self, facts: Facts, reductions: Sequence[Node]) -> list[Carried]:
        """What loops carry that a reduction takes in, or adds to."""
        return [
            c
            for loop in facts.loops
            if loop not in facts.item_loops
            for c in loop.of(
                Role.SUM, *([Role.RUNNING_MAXIMUM] if loop in facts.rolled_loops else [])
            )
            if self._partial(facts, loop, c, reductions)
        ]

    def _beside(
        self, facts: Facts, reductions: Sequence[Node], carried: list[Carried]
    ) -> Iterable[Decision]:
        """Partial sums that loops carry, with the reductions that they are made of or that take
        them in; and reductions of rows that have no part in them."""
        combining = [r for c in carried for r in self._combining(facts, c) if r in reductions]
        summed = [r for r in reductions if any(facts.graph.rests_on(c.next, r) for c in carried)]
        if not (facts.of_threads and second_stage(facts)):
            made = [r for r in summed if any(map(r.inside, self._around(facts, carried)))]
            where = [*self._ends(facts, [c.next for c in carried]), *made, *combining]
            yield self.decide(facts, "streamed partials then combine", where)
        if rows := [r for r in reductions if r not in (*combining, *summed)]:
            yield self.decide(facts, "one reduction over a resident row", rows)

    def _around(self, facts: Facts, carried: list[Carried]) -> list[Node]:
        """The loops that carry values."""
        return [n for c in carried if (n := facts.graph.producer(c.result)) is not None]

    def _of_rows(self, facts: Facts, reductions: Sequence[Node]) -> Decision:
        pairs = [
            (a, b)
            for a in reductions
            for b in reductions
            if a is not b and facts.graph.rests_on(b.result, a)
        ]
        nodes = [n for pair in pairs for n in pair] or reductions
        value = "two dependent reductions" if pairs else "one reduction over a resident row"
        if not pairs and partial_reductions(facts):
            value = "one partial per block, combined in a second stage"
        return self.decide(facts, value, nodes)

    def _streamed(self, facts: Facts) -> list[Node]:
        """What loops over a block's share of an axis add up, with the reductions that take it in;
        empty where a reduction takes in something else."""
        sums = [c for x in facts.loops if x in facts.item_loops for c in x.of(Role.SUM)]
        taken = [(c, self._combining(facts, c)) for c in sums] if not facts.contractions else []
        combining = [r for _, found in taken for r in found]
        if any(r not in combining for r in facts.reductions):
            return []
        return [*self._ends(facts, [c.next for c, found in taken if found]), *combining]

    def _reads(self, facts: Facts, loop: Loop, carried: Carried) -> bool:
        """True when each step takes in what it loads, wherever that lies, and the outcome is
        stored."""
        loads = [a for a in facts.feeding(carried.next) if a.node.inside(loop.node)]
        placed = (v for a in loads for v in a.address)
        if not loads or any(leads(facts.graph, v, carried.argument) for v in placed):
            return False
        return any(
            n is loop.node
            for s in facts.stored_in(carried.result)
            for n in facts.graph.upstream(s.value, lambda n: n.op.kind in READS)
        )

    def _partial(
        self, facts: Facts, loop: Loop, carried: Carried, reductions: Sequence[Node]
    ) -> bool:
        """True when a reduction takes the carried sum in after the loop, or each step adds a
        reduction that does not look at the sum."""
        for reduction in reductions:
            read = reduction.op.inputs[0]
            if not reduction.inside(loop.node):
                own = facts.graph.producer(carried.result)
                if own is not None and facts.graph.rests_on(read, own):
                    if leads(facts.graph, read, carried.result):
                        return True
            elif facts.graph.rests_on(carried.next, reduction):
                if not leads(facts.graph, read, carried.argument):
                    return True
        return False

    def _combining(self, facts: Facts, carried: Carried) -> list[Node]:
        """The reductions that take a carried sum in, after its loop."""
        own = facts.graph.producer(carried.result)
        taking = [r for r in facts.reductions if leads(facts.graph, r.op.inputs[0], carried.result)]
        return [r for r in taking if own is not None and not r.inside(own)]

    def _rescales(self, facts: Facts, loop: Node) -> bool:
        return any(e.rescale and e.node.inside(loop) for e in facts.exponentials)

    def _added(self, facts: Facts, carried: Carried) -> list[Node]:
        """Products that a loop adds to what it carries, under branches, too."""
        steps = updates(facts.graph, carried.argument, carried.next)
        return [n for n in steps if n.op.kind in CONTRACTIONS]

    def _ends(self, facts: Facts, values: list[str]) -> list[Node]:
        """The operations that make values; of a branch, those that make what it hands on."""
        found = [n for v in values if (n := grower(facts.graph, v)) is not None]
        for node in found:
            if node.op.kind == OpKind.IF and len(found) < MAX_ENDS:
                handed = [v for value in values for v in facts.graph.feeds(value)]
                made = [facts.graph.producer(v) for v in handed]
                found += [n for n in made if n is not None and n.inside(node) and n not in found]
        return [n for n in found if n.op.kind != OpKind.IF] or found
