"""A variance put together from counts, means and centred sums of parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import Graph
from kb.analysis.inline import inline
from kb.evidence import Decision
from kb.ir import Function
from kb.ops import OpKind

_HELPER = """
def join(m, c, s, mean, count, squares):
    total = c + count
    delta = mean - m
    share = count / total
    return m + delta * share, total, s + squares + delta * delta * c * share
"""
_MERGED = (
    POINTER
    + "\n@triton.jit"
    + _HELPER
    + """
@triton.jit
def spread(means, counts, sums, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    inside = at < n
    m = tl.load(means + at, mask=inside, other=0.0)
    c = tl.load(counts + at, mask=inside, other=0.0)
    s = tl.load(sums + at, mask=inside, other=0.0)
    mean, count, square = tl.reduce((m, c, s), axis=0, combine_fn=join)
    tl.store(out, square / count)
"""
)
_MERGED_TILE = (
    TILE
    + _HELPER
    + """
@ct.kernel
def spread(means, counts, sums, out, T: Int):
    m = ct.load(means, index=(0,), shape=(T,))
    c = ct.load(counts, index=(0,), shape=(T,))
    s = ct.load(sums, index=(0,), shape=(T,))
    mean, count, square = ct.reduce((m, c, s), 0, join, (0.0, 0.0, 0.0))
    ct.store(out, index=(0,), tile=square / count)
"""
)
_SHIFTED = (
    ("@triton.jit\ndef join(", "@triton.jit\ndef move(m, by, share):\n    return m + by * share\n\n"
     "@triton.jit\ndef join("),
    ("return m + delta * share, ", "return move(m, delta, share), "),
)  # fmt: skip
_SUMMED = (
    "    return m + delta * share, total, s + squares + delta * delta * c * share\n",
    "    return m + mean, total, s + squares\n",
)


class WelfordMerge(Pattern):
    """A reduction whose own function adds two counts, shifts a mean by a share of them, and adds
    a product of means to two sums."""

    name = "variance-merged-from-parts"
    axis = "variance_algorithm"
    source = "Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance (1983)"
    matches = (
        Case(_MERGED, "Welford"),
        Case(_MERGED_TILE, "Welford"),
        Case(vary(_MERGED, *_SHIFTED), "Welford"),
    )
    near_misses = (
        NearMiss(vary(_MERGED, _SUMMED), why="three plain sums"),
        NearMiss(vary(_MERGED_TILE, _SUMMED), why="three plain sums"),
        NearMiss(LAYER_NORM_POINTER, why="sums of the row itself"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Where] = []
        for node in facts.graph.of(OpKind.REDUCE, OpKind.SCAN):
            helper = _combines(facts, node.op.operand("combine"))
            if helper is not None and _merges(helper):
                found.append(node)
                if helper.span.path == facts.kernel.entry.span.path:
                    found.append(helper.span.lines)
        if found:
            yield self.decide(facts, "Welford", found)


def _combines(facts: Facts, value: str | None) -> Function | None:
    """The function that a reduction joins two parts with."""
    made = facts.graph.producer(value)
    names = [str(text) for _, text in made.op.attributes] if made is not None else []
    held = [one for name in names if (one := facts.kernel.helper(name)) is not None]
    return inline(replace(facts.kernel, entry=held[0])).entry if held else None


def _merges(helper: Function) -> bool:
    """Three numbers of two parts each: one is added, one is divided by that sum, one adds two
    parts and a product with the mean of both."""
    names = helper.parameter_names
    last = helper.body.ops[-1] if helper.body.ops else None
    if last is None or last.kind != OpKind.RETURN or len(names) != 6:
        return False
    graph = Graph(helper)
    ends = list(last.inputs)
    made = graph.producer(ends[0]) if len(ends) == 1 else None
    ends = list(made.op.inputs) if made is not None and made.op.kind == OpKind.TUPLE else ends
    if len(ends) != 3:
        return False
    for place, end in enumerate(ends):
        total = graph.producer(graph.core(end))
        pair = {names[place], names[place + 3]}
        if total is None or total.op.kind != OpKind.ADD:
            continue
        if {graph.core(v) for v in total.op.inputs[:2]} != pair:
            continue
        rest = [e for e in ends if e != end]
        shares = [
            n
            for n in graph.of(OpKind.DIV)
            if graph.rests_on(n.op.inputs[1], total) and all(graph.rests_on(e, n) for e in rest)
        ]
        products = [[n for n in graph.of(OpKind.MUL) if graph.rests_on(e, n)] for e in rest]
        if shares and any(products):
            return True
    return False
