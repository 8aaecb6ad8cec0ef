"""What a row gives whose sum or maximum is empty: asked for before it is divided by."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_merges import (
    GATED_THREADS,
    MERGE_LOGARITHM_POINTER,
    MERGE_LOOP_THREADS,
    MERGE_PAIR_THREADS,
)
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS, SOFTMAX_THREADS
from kb.analysis.facts import Facts
from kb.analysis.floors import Floor, counts, floors
from kb.analysis.graph import COPIES, LOOPS, Node
from kb.analysis.idioms import comparisons
from kb.analysis.merging import merge_of
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_TESTS = frozenset({OpKind.GT, OpKind.LT, OpKind.EQ, OpKind.NE, OpKind.GE, OpKind.LE})
_TAKEN = frozenset({OpKind.DIV, OpKind.LOG, OpKind.LOG2})
_KEPT = (OpKind.MAXIMUM, OpKind.ADD)
_NOTHING = MERGE_LOOP_THREADS.replace("tot > 0.f ? 1.f / tot : 0.f", "1.f / tot").replace(
    "    float top",
    "    if (count == 0) {\n        out[row * width + threadIdx.x] = 0.f;\n        return;\n    }\n"
    "    float top",
)
_LARGEST = (
    POINTER
    + """
@triton.jit
def scale(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    top = tl.max(tl.abs(v), axis=0)
    tl.store(out + tl.program_id(0), tl.where(top > 1e-12, 448.0 / top, 1.0))
"""
)
_COUNTED = (
    POINTER
    + """
@triton.jit
def mean(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    some = tl.sum((v > 0.0).to(tl.int32), axis=0)
    tl.store(out + tl.program_id(0), tl.sum(v, axis=0) / tl.maximum(some, 1).to(tl.float32))
"""
)
_COUNTED_TILE = (
    TILE
    + """
@ct.kernel
def mean(x, out, T: Int):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    some = ct.sum(ct.astype(v > 0.0, ct.float32), axis=0, keepdims=True)
    ct.store(out, index=(ct.bid(0),), tile=v / (some + 1e-6))
"""
)
_SHIFTED = vary(SOFTMAX_POINTER, ("y = e / d", "y = e / (d + 1e-8)"))
_NEAR_ZERO = 1e-2
_GIVEN_SUM = (
    POINTER
    + """
@triton.jit
def share(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    whole = tl.sum(v, axis=0)
    by = 1.0 / tl.where(whole <= 1e-8, 1.0, whole)
    tl.store(out + tl.program_id(0) * n + at, v * by, mask=at < n)
"""
)
_SEARCHED = (
    POINTER
    + """
@triton.jit
def share(x, out, n, least, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    low = 0.0
    whole = 1.0
    while whole > least:
        low += 0.1
        whole = tl.sum(tl.where(v > low, v, 0.0), axis=0)
    by = 1.0 / tl.maximum(whole, 1e-8)
    tl.store(out + tl.program_id(0) * n + at, v * by, mask=at < n)
"""
)
_REPLACED = ("y = e / d", "d = tl.where(d == 0.0, 1.0, d)\n        y = e / d")
_DIVIDED = ("y = e / d", "y = tl.where(d > 0.0, e / d, 0.0)")


class GuardedSum(Pattern):
    """A quotient or logarithm of a sum of exponentials, or a quotient by another reduced number,
    that is taken where the sum is not zero, a number elsewhere; a count or a sum that is bounded or
    shifted from zero before it divides; or a merge of no parts that stores numbers and leaves."""

    name = "empty-sum-asked-for-before-it-divides"
    axis = "empty_row_handling"
    source = "tilelore catalogue, axis empty_row_handling; Dao, FlashAttention-2 (2023)"
    matches = (
        Case(MERGE_LOOP_THREADS, "zero where the sum is empty"),
        Case(_NOTHING, "numbers stored for no parts"),
        Case(_COUNTED, "count kept from zero"),
        Case(_COUNTED_TILE, "count kept from zero"),
        Case(_SHIFTED, "sum kept from zero"),
        Case(_LARGEST, "asked for by the divisor"),
        Case(_GIVEN_SUM, "asked for by the divisor"),
        Case(_SEARCHED, "sum kept from zero"),
        Case(vary(SOFTMAX_POINTER, _DIVIDED), "zero where the sum is empty"),
        Case(vary(SOFTMAX_POINTER, _REPLACED), "zero where the sum is empty"),
        Case(MERGE_LOGARITHM_POINTER, "sum kept from zero"),
    )
    near_misses = (
        NearMiss(vary(_SHIFTED, ("1e-8", "1.0")), why="one more summand, such as a sink"),
        NearMiss(MERGE_PAIR_THREADS, why="nothing asks whether the sum is zero"),
        NearMiss(SOFTMAX_THREADS, why="nothing asks whether the sum is zero"),
        NearMiss(ROW_NORM_THREADS, why="nothing asks for the sum"),
        NearMiss(
            vary(_LARGEST, ("448.0 / top", "448.0 / 3.0")), why="what is asked for divides nothing"
        ),
        NearMiss(vary(_COUNTED, ("tl.maximum(some, 1)", "some")), why="the count may be zero"),
        NearMiss(
            vary(_COUNTED_TILE, ("v > 0.0", "v")),
            why="what is kept from zero counts nothing",
            value="count kept from zero",
        ),
        NearMiss(
            vary(_GIVEN_SUM, ("whole <= 1e-8, 1.0, whole", "whole <= 1e-8, whole, v")),
            why="one element is chosen, not the sum",
        ),
        NearMiss(vary(_SEARCHED, ("tl.maximum(whole, 1e-8)", "whole")), why="nothing bounds it"),
        NearMiss(GATED_THREADS, why="nothing is chosen"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        guarded = [_guarded(facts, select) for select in facts.graph.of(OpKind.SELECT)]
        chosen = [n for nodes in guarded for n in nodes]
        bounded = [f for kind in _KEPT for f in floors(facts, kind)]
        kept = [f for f in bounded if counts(facts, f.bounded)]
        if kept:
            where = [n for f in kept for n in (f.node, f.taken)]
            yield self.decide(facts, "count kept from zero", where)
        small = [f for f in bounded if _small(facts, f)]
        if small and not kept:
            where = [n for f in small for n in (f.node, f.taken)]
            yield self.decide(facts, "sum kept from zero", where)
        if not facts.exponentials:
            if chosen:
                yield self.decide(facts, "asked for by the divisor", chosen)
            return
        merge = merge_of(facts)
        empty = _without_parts(facts, {n.loop for n in merge.weighted}) if merge else []
        if chosen or empty:
            value = _instead(facts, chosen) if chosen else "numbers stored for no parts"
            yield self.decide(facts, value, [*chosen, *empty])


def _instead(facts: Facts, chosen: list[Node]) -> str:
    """What takes the place of what an empty sum would give: a quotient by another number than the
    sum is zero then."""
    triples = zip(chosen[1::3], chosen[2::3], strict=False)
    selects = [last for taken, last in triples if taken.op.kind in _TAKEN]
    numbers = {facts.values.literal(v) for n in selects for v in n.op.inputs[1:]} - {None}
    other = bool(numbers) and 0 not in numbers
    return f"{'another number' if other else 'zero'} where the sum is empty"


def _small(facts: Facts, floor: Floor) -> bool:
    """A small number that keeps a sum from zero, by which something is divided."""
    made = facts.graph.producer(facts.graph.core(floor.bounded))
    near = floor.number is not None and 0 < floor.number < _NEAR_ZERO
    if not near or made is None:
        return False
    if _of_powers(facts, floor.bounded):
        return made.kind == OpKind.REDUCE_SUM and floor.taken.kind in _TAKEN
    carried = made.kind in LOOPS and bool(facts.graph.roots(floor.bounded, OpKind.REDUCE_SUM))
    return floor.taken.kind == OpKind.DIV and (made.kind == OpKind.REDUCE_SUM or carried)


def _of_powers(facts: Facts, value: str | None) -> bool:
    return bool(facts.graph.roots(value, OpKind.EXP, OpKind.EXP2))


def _guarded(facts: Facts, select: Node) -> list[Node]:
    """A choice between a number and what is taken of a sum that the condition compares."""
    every = comparisons(facts, select.op.operand("condition"))
    test = next((n for n in every if n.op.kind in _TESTS), None)
    sides = [select.op.operand(role) for role in ("x", "y")]
    numbers = [v for v in sides if isinstance(facts.values.literal(v), int | float)]
    if test is None or len(numbers) != 1:
        return []
    sums = [facts.graph.through(v, COPIES) for v in test.op.inputs[:2]]
    for side in (v for v in sides if v not in numbers):
        taken = facts.graph.upstream(side or "", lambda n: n.op.kind in _TAKEN)
        for node in (n for n in taken if n.op.kind in _TAKEN):
            of = node.op.inputs[1 if node.op.kind == OpKind.DIV else 0]
            below = facts.graph.through(of, COPIES)
            if below in sums and (_of_powers(facts, below) or _gathered(facts, below, node)):
                return [test, node, select]
        if facts.graph.through(side, COPIES) in sums:
            powers, users = _of_powers(facts, side), facts.graph.downstream(select.result, 12)
            takers = [n for n in users if n.op.kind in _TAKEN and n.op.inputs[0] != side]
            if takers and (_summed(facts, side) if powers else _replaced(facts, select, takers[0])):
                return [test, select, takers[0]]
            return []
    return []


def _replaced(facts: Facts, select: Node, taken: Node) -> bool:
    """Whether what divides is the choice itself, between a reduced number and a number."""
    below = facts.graph.through(taken.op.inputs[-1], COPIES)
    reduced = any(facts.graph.kind_of(facts.graph.core(v)) in REDUCTIONS for v in select.op.inputs)
    return taken.op.kind == OpKind.DIV and reduced and select.result in (below, *taken.op.inputs)


def _summed(facts: Facts, value: str | None) -> bool:
    """True for a sum, over lanes or of two numbers."""
    return facts.graph.kind_of(facts.graph.core(value)) in (OpKind.REDUCE_SUM, OpKind.ADD)


def _gathered(facts: Facts, value: str | None, taken: Node) -> bool:
    """A number that a reduction or a loop gives, and that is divided by."""
    made = facts.graph.producer(value)
    if made is None or taken.op.kind != OpKind.DIV:
        return False
    return made.op.kind in LOOPS or bool(facts.graph.roots(value, *REDUCTIONS, *LOOPS))


def _without_parts(facts: Facts, loops: set[Node | None]) -> list[Node]:
    """A branch taken when the loop over the parts has none: it stores numbers and leaves."""
    ends = {facts.values.expr(loop.high) for loop in facts.loops if loop.node in loops}
    for branch in facts.graph.of(OpKind.IF):
        test = facts.graph.producer(branch.op.inputs[0])
        last = branch.op.regions[0].terminator
        if test is None or test.op.kind != OpKind.EQ or last is None or last.kind != OpKind.RETURN:
            continue
        sides = [facts.values.expr(v) for v in test.op.inputs[:2]]
        stores = [a for a in facts.stores if a.node.inside(branch) and a.node.branch == 0]
        if any(s in ends for s in sides) and any(s.constant == 0 for s in sides) and stores:
            if not any(facts.feeding(a.value) for a in stores):
                return [test, *(a.node for a in stores)]
    return []
