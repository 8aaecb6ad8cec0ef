"""Several ways to compute what is stored, of which a compile-time parameter keeps one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.layout_by_flag import branches
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import is_wide
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_CURVES = (
    POINTER
    + """
@triton.jit
def curve(x, out, n, WAY: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    if WAY == 0:
        y = v * (1.0 / (1.0 + tl.exp(-v)))
    else:
        y = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    tl.store(out + at, y, mask=at < n)
"""
)
_CURVES_TILE = (
    TILE
    + """
@ct.kernel
def curve(x, out, WAY: Int, T: Int):
    own = ct.bid(0)
    v = ct.load(x, index=(own,), shape=(T,))
    if WAY == 0:
        y = v * (1.0 / (1.0 + ct.exp(-v)))
    else:
        y = 0.5 * v * (1.0 + ct.tanh(v * (1.0 + v * v * 0.044715)))
    ct.store(out, index=(own,), tile=y)
"""
)
_FUNCTIONS = REDUCTIONS | CONTRACTIONS | {
    OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SIGMOID, OpKind.TANH, OpKind.ERF,
    OpKind.SQRT, OpKind.RSQRT,
}  # fmt: skip
_STEPS = _FUNCTIONS | {
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.MAXIMUM, OpKind.MINIMUM,
}  # fmt: skip
_MANY = 3
"""Steps on either side that are more than a correction."""


class ChosenComputation(Pattern):
    """A branch on a compile-time parameter computes a stored tile by other operations on either
    side, functions, reductions or products among them."""

    name = "computation-chosen-at-compile-time"
    axis = "algorithm_selection"
    source = "Triton documentation, tl.constexpr: branches that are compiled away"
    matches = (
        Case(_CURVES, "one of several computations, by a compile-time parameter"),
        Case(_CURVES_TILE, "one of several computations, by a compile-time parameter"),
    )
    near_misses = (
        NearMiss(vary(_CURVES, ("WAY: tl.constexpr", "WAY")), why="asked at run time"),
        NearMiss(
            vary(_CURVES, ("0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))", "v")),
            why="a step that is left out",
        ),
        NearMiss(
            vary(
                _CURVES,
                ("0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))",
                 "v * (1.0 / (1.0 + tl.exp(v)))"),
                ("tl.exp(-v)", "tl.exp(v * 1.0)"),
            ),
            why="the same functions of other numbers",
        ),
        NearMiss(
            vary(_CURVES, ("    tl.store(out + at, y", "    tl.store(out + at, v")),
            why="nothing of it is stored",
        ),
        NearMiss(PRODUCT, why="one way"),
        NearMiss(ADD_POINTER, why="one way"),
        NearMiss(ROW_NORM, why="one way"),
        NearMiss(ADD_THREADS, why="one way"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        found = [b.node for b in branches(facts) if _two_ways(facts, b.node)]
        if found:
            value = "one of several computations, by a compile-time parameter"
            yield self.decide(facts, value, [n.head for n in found])


def _two_ways(facts: Facts, branch: Node) -> bool:
    """Whether both sides hand on tiles that are stored, made by different functions; beside a
    product each side has one of its own, for a step of an attention may be left out."""
    results = [r.name for r in branch.op.results if is_wide(facts, r.name)]
    if len(branch.op.regions) != 2 or not any(facts.stored_in(r) for r in results):
        return False
    ways = [_steps(facts, branch, side) for side in (0, 1)]
    made = [Counter(n.op.kind for n in way if n.op.kind in _FUNCTIONS) for way in ways]
    left, right = made[0] - made[1], made[1] - made[0]
    apart = (left and right) if facts.contractions else (left or right)
    return all(made) and bool(apart) and all(len(way) >= _MANY for way in ways)


def _steps(facts: Facts, branch: Node, side: int) -> list[Node]:
    return [
        node
        for node in facts.graph.of(*_STEPS)
        if any(is_wide(facts, v) for v in (node.result, *node.op.inputs[:1]))
        and any(n.parent is branch and n.branch == side for n in (node, *node.around()))
    ]
