"""The larger of two numbers is chosen by a comparison, which is false for a NaN."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, TURNS, VIEWS, Node
from kb.evidence import Finding, Severity
from kb.ops import READS, OpKind

_ORDERS = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
_EXTREMES = (OpKind.MAXIMUM, OpKind.MINIMUM)
_HELD = CASTS | COPIES | VIEWS | TURNS | {OpKind.REDUCE_MAX, OpKind.REDUCE_MIN, OpKind.UNPACK}

_LARGEST = (
    POINTER
    + """
@triton.jit
def largest(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    best = tl.full((T,), float("-inf"), tl.float32)
    place = tl.full((T,), -1, tl.int32)
    for i in range(n):
        v = tl.load(x + at * n + i).to(tl.float32)
        better = v > best
        best = tl.where(better, v, best)
        place = tl.where(better, i, place)
    tl.store(out + at, place)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def larger(x, y, out, T: Int):
    a = ct.astype(ct.load(x, index=(ct.bid(0),), shape=(T,)), ct.float32)
    b = ct.astype(ct.load(y, index=(ct.bid(0),), shape=(T,)), ct.float32)
    ct.store(out, index=(ct.bid(0),), tile=ct.where(a > b, a, b))
"""
)
_WHOLE = vary(
    _LARGEST,
    ('float("-inf"), tl.float32', "-1, tl.int32"),
    (".to(tl.float32)", ".to(tl.int32)"),
)


class NanNeverChosen(Rule):
    """The larger or smaller of two numbers, one of which was loaded, is chosen by a comparison, or
    the place of it is: every comparison with a NaN is false, so that one in the data is passed
    over, or kept, by where it stands."""

    name = "nan-never-chosen"
    dialects = ("cutile", "triton")
    matches = (
        Case(_LARGEST, "false for a NaN"),
        Case(_TILES, "false for a NaN"),
        Case(
            vary(_LARGEST, ("tl.where(better, v, best)", "tl.maximum(v, best)")), "false for a NaN"
        ),
    )
    near_misses = (
        NearMiss(
            vary(_LARGEST, ("v > best", "(v > best) | (v != v)")),
            why="a NaN is asked for and chosen",
        ),
        NearMiss(_WHOLE, why="whole numbers have none"),
        NearMiss(
            vary(_TILES, ("ct.where(a > b, a, b)", "ct.where(a > b, a, 0.0)")),
            why="a threshold, not the larger of two",
        ),
        NearMiss(
            vary(_TILES, ("ct.where(a > b, a, b)", "ct.maximum(a, b)")), why="nothing is compared"
        ),
    )
    seen = (Seen("flag-gems", "flag_gems/ops/argmin.py", "argmin_kernel", 193),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found = {} if asks_for_nan(facts) else dict.fromkeys(_chosen(facts))
        if found:
            yield self.finding(
                subject,
                "the larger or smaller of two numbers is chosen by a comparison, which is false "
                "for a NaN: a NaN among them is not chosen and not reported, and the result "
                "is that of the others",
                "choose a NaN where there is one, as a framework does, or say that it is left out",
                found,
                Severity.NOTE,
            )


def asks_for_nan(facts: Facts) -> bool:
    """Whether anything asks for a NaN: by name, or by comparing a number with itself."""
    graph = facts.graph
    return bool(graph.of(OpKind.ISNAN)) or any(
        graph.core(node.op.inputs[0]) == graph.core(node.op.inputs[1])
        for node in graph.of(OpKind.EQ, OpKind.NE)
    )


def _chosen(facts: Facts) -> Iterator[Node]:
    """Comparisons of two numbers of which the larger or smaller is kept, and what they choose."""
    graph = facts.graph
    extremes = {_pair(facts, node.op.inputs[:2]) for node in graph.of(*_EXTREMES)}
    for test in graph.of(*_ORDERS):
        pair = _pair(facts, test.op.inputs[:2])
        selects = [n for n in graph.users(test.result) if n.op.kind == OpKind.SELECT]
        kept = {_pair(facts, one.op.inputs[1:3]) for one in selects} | extremes
        if len(pair) == 2 and pair in kept and selects and _floats(facts, test):
            if any(_loaded(facts, value) for value in test.op.inputs[:2]):
                yield from (test, *selects)


def _pair(facts: Facts, values: Iterable[str]) -> frozenset[str | None]:
    return frozenset(facts.graph.core(value) for value in values)


def _floats(facts: Facts, test: Node) -> bool:
    """Whether none of the two is known to be a whole number."""
    return not any(facts.types.dtype(value)[:1] in ("i", "u") for value in test.op.inputs[:2])


def _loaded(facts: Facts, value: str) -> bool:
    """Whether a number is loaded, or the largest or smallest of such."""
    return any(node.op.kind in READS for node in facts.graph.ends(value, _HELD))
