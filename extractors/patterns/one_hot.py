"""One element of a row that is treated apart, found by comparing its column."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.dtypes import is_float
from kb.evidence import Decision
from kb.ops import COMPARISONS, READS, REDUCTIONS, OpKind

_LESS = (
    POINTER
    + """
@triton.jit
def back(x, y, first, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    own = tl.load(y + row) - first
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        v = tl.where(at == own, v - 1.0, v)
        tl.store(out + row * n + at, v, mask=at < n)
"""
)
_LESS_TILE = (
    TILE
    + """
@ct.kernel
def back(x, y, out, T: Int):
    row = ct.bid(0)
    own = ct.load(y, index=(row,), shape=())
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (row, at))
    hot = ct.astype(at == own, ct.float32)
    ct.scatter(out, (row, at), ct.astype(v - hot, out.dtype))
"""
)
_ARITHMETIC = (OpKind.SELECT, OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FMA)
_STOPS = REDUCTIONS | READS | COMPARISONS


class OneHot(Pattern):
    """Columns of a tile are compared with a loaded number, and what the comparison gives chooses or
    changes one element of what is stored: no element is read or written for itself."""

    name = "one-element-of-a-row-by-comparing-columns"
    axis = "mask_application"
    source = "Hsu et al., Liger Kernel (2024), gradient of the cross entropy"
    matches = (
        Case(_LESS, "one element by its column"),
        Case(vary(_LESS, ("at == own, v - 1.0, v", "at != own, v, v - 1.0"))),
        Case(_LESS_TILE, "one element by its column"),
        Case(vary(_LESS_TILE, ("v - hot", "ct.where(at == own, v - 1.0, v)"))),
    )
    near_misses = (
        NearMiss(vary(_LESS, ("tl.load(y + row) - first", "first")), why="nothing is loaded"),
        NearMiss(vary(_LESS, ("at == own", "at < own")), why="all elements up to one"),
        NearMiss(
            vary(_LESS, ("row * n + at, v, mask", "row * n + at, tl.sum(v, axis=0), mask")),
            why="the element is summed with the others",
        ),
        NearMiss(
            vary(_LESS, ("at == own", "tl.load(y + at) == own")),
            why="what is loaded for each column is compared",
        ),
        NearMiss(vary(_LESS_TILE, ("ct.load(y, index=(row,), shape=())", "row")), why="no load"),
        NearMiss(vary(_LESS_TILE, ("at == own", "at >= own")), why="all elements from one on"),
        NearMiss(ATTENTION, why="columns are compared with rows"),
        NearMiss(PRODUCT, why="nothing is compared"),
        NearMiss(SOFTMAX, why="nothing is compared"),
        NearMiss(SOFTMAX_POINTER, why="columns are compared with the extent"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or facts.of_threads:
            return
        tests = [n for n in facts.graph.of(OpKind.EQ, OpKind.NE) if _column(facts, n)]
        found: list[Node] = []
        for store in facts.stores if tests else ():
            above = [*facts.graph.upstream(store.value, lambda n: n.op.kind in _STOPS)]
            for test in tests:
                if test in above:
                    found += [test, *(n for n in above if _changes(facts, n, test))]
        if found:
            yield self.decide(facts, "one element by its column", dict.fromkeys(found))


def _column(facts: Facts, test: Node) -> bool:
    """Whether lanes are compared with a whole number that was loaded, once for all of them."""
    for lanes, number in (test.op.inputs[:2], test.op.inputs[1::-1]):
        counted = facts.values.expr(lanes).has(AtomKind.LANE) and not facts.feeding(lanes)
        loaded = facts.feeding(number) and not is_float(facts.types.dtype(number))
        wide = sum(e != "1" for e in facts.types.shape(number))
        narrow = wide < sum(e != "1" for e in facts.types.shape(test.result))
        if counted and loaded and narrow and not facts.graph.roots(number, *REDUCTIONS):
            return True
    return False


def _changes(facts: Facts, node: Node, test: Node) -> bool:
    """A choice by a comparison, or a step that takes what it gave as a number."""
    if node.op.kind not in _ARITHMETIC:
        return False
    stops = frozenset(_ARITHMETIC)
    return any(
        test in facts.graph.upstream(v, lambda n: n is test or n.op.kind in stops)
        for v in node.op.inputs
    )
