"""Functions that are computed in two ways for every element, of which one is kept."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons
from kb.dtypes import may_be_float
from kb.evidence import Decision
from kb.ops import READS, OpKind

_STEPS = frozenset({
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.EXP, OpKind.EXP2,
    OpKind.LOG, OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.SIN, OpKind.COS, OpKind.TANH,
})  # fmt: skip
MIN_STEPS = 3
"""Steps that either side has for itself."""

_PARTS = (
    POINTER
    + """
@triton.jit
def bessel(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    w = v * v
    low = 1.0 + w * (0.25 + w * 0.015625)
    high = tl.exp(v) / tl.sqrt(v) * 0.39894228
    tl.store(out + at, tl.where(v < 3.75, low, high), mask=at < n)
"""
)
_PARTS_TILE = (
    TILE
    + """
@ct.kernel
def bessel(x, out, T: Int):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    w = v * v
    low = 1.0 + w * (0.25 + w * 0.015625)
    high = ct.exp(v) / ct.sqrt(v) * 0.39894228
    ct.store(out, index=(ct.bid(0),), tile=ct.where(v < 3.75, low, high))
"""
)


class FormulasSelected(Pattern):
    """A tile is chosen lane by lane from two that both are computed from what was loaded, in
    several steps of their own, by a comparison of that with a number."""

    name = "two-formulas-chosen-lane-by-lane"
    axis = "math_approximation"
    source = "Abramowitz and Stegun, Handbook of Mathematical Functions, section 9.8"
    matches = (
        Case(_PARTS, "both formulas computed, chosen lane by lane"),
        Case(_PARTS_TILE, "both formulas computed, chosen lane by lane"),
    )
    near_misses = (
        NearMiss(
            vary(_PARTS, ("low, high)", "low, 0.0)")), why="what lies beyond is a number"
        ),
        NearMiss(
            vary(_PARTS, ("tl.exp(v) / tl.sqrt(v) * 0.39894228", "v * low")),
            why="the second form is the first one, scaled",
        ),
        NearMiss(
            vary(_PARTS, ("tl.where(v < 3.75,", "tl.where(at < n,")), why="the place chooses"
        ),
        NearMiss(vary(_PARTS_TILE, ("low, high)", "low, v)")), why="beyond, nothing is computed"),
        NearMiss(PRODUCT, why="nothing is chosen"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        where = [n for select in facts.graph.of(OpKind.SELECT) for n in _chosen(facts, select)]
        if where and not facts.of_threads:
            yield self.decide(
                facts, "both formulas computed, chosen lane by lane", dict.fromkeys(where)
            )


def _chosen(facts: Facts, select: Node) -> list[Node]:
    """A choice between two formulas, and the comparison that it goes by; none for another one."""
    condition, *sides = select.op.inputs[:3]
    tests = [
        test
        for test in comparisons(facts, condition)
        if any(facts.number(v) is not None for v in test.op.inputs)
        and any(facts.feeding(v) for v in test.op.inputs)
    ]
    if not tests or not may_be_float(facts.types.dtype(select.result)):
        return []
    steps = [_steps(facts, side) for side in sides]
    own = [one - other for one, other in (steps, steps[::-1])]
    apart = len(own) > 1 and all(len(side) >= MIN_STEPS for side in own)
    return [select, *tests] if apart else []


def _steps(facts: Facts, value: str) -> set[Node]:
    """What a tile is computed by, from what was loaded on."""
    above = facts.graph.upstream(value, lambda n: n.op.kind in READS)
    return {n for n in above if n.op.kind in _STEPS and facts.types.shape(n.result)}
