"""Divisions that a branch holds, by what the branch asks for."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.idioms import comparisons
from kb.evidence import Decision
from kb.ops import OpKind

_VALUE = "divided only where the divisor is not zero"
_ASKING = (OpKind.GT, OpKind.LT, OpKind.NE, OpKind.GE, OpKind.LE)
_MEAN = """__global__ void mean(const float* x, const int* starts, float* out, int n) {
    int row = blockIdx.x, at = threadIdx.x;
    int count = starts[row + 1] - starts[row];
    float sum = 0.f;
    for (int k = 0; k < count; ++k) sum += x[(starts[row] + k) * n + at];
    if (count > 0) out[row * n + at] = sum / count;
}
"""
_COUNTED = """__global__ void mean(const float* x, const int* marks, float* out, int rows, int n) {
    int at = threadIdx.x;
    float sum = 0.f, count = 0.f;
    for (int r = 0; r < rows; ++r)
        if (marks[r]) { sum += x[r * n + at]; count += 1.f; }
    if (count != 0.f) out[at] = sum / count;
}
"""


class DividedIfAny(Pattern):
    """A branch that asks whether a loaded or counted number is zero holds the division by it, or
    the store of the quotient."""

    name = "divided-only-by-what-is-not-zero"
    axis = "empty_row_handling"
    source = "Shi et al., Part-A2 net (2019): means over the points of a voxel, which may be none"
    matches = (Case(_MEAN, _VALUE), Case(_COUNTED, _VALUE))
    near_misses = (
        NearMiss(_MEAN.replace("if (count > 0) ", ""), why="divided in any case"),
        NearMiss(_MEAN.replace("count > 0", "at > 0"), why="something else is asked for"),
        NearMiss(
            _MEAN.replace("(count > 0)", "(n > 0)").replace("/ count", "/ n"), why="an extent"
        ),
        NearMiss(_MEAN.replace("count > 0", "count > 7"), why="no zero"),
        NearMiss(ROW_NORM_THREADS, why="no branch"),
        NearMiss(ADD_THREADS, why="no division"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        held = [(n.op.inputs[0], n) for n in facts.graph.of(OpKind.IF)]
        masked = [(s.mask, s.node) for s in facts.stores if s.mask is not None]
        found: dict[Node, None] = {}
        for taken in facts.graph.of(OpKind.DIV):
            under = facts.graph.core(taken.op.inputs[1])
            counted = facts.graph.kind_of(under) in LOOPS
            if under is None or not (counted or facts.feeding(under)):
                continue
            around = set(taken.around())
            asked = [(c, n) for c, n in held if n in around]
            asked += [(c, n) for c, n in masked if _stores(facts, n, taken)]
            for condition, node in asked:
                tests = comparisons(facts, condition)
                if any(_asks(facts, test, under) for test in tests):
                    found |= dict.fromkeys((*tests, node, taken))
        if found:
            yield self.decide(facts, _VALUE, found)


def _stores(facts: Facts, store: Node, taken: Node) -> bool:
    """Whether a store takes a quotient as it is, perhaps in another type."""
    return facts.graph.producer(facts.graph.core(store.op.operand("value"))) is taken


def _asks(facts: Facts, test: Node, under: str) -> bool:
    """Whether a comparison asks for a divisor against zero, or against one of whole numbers."""
    sides = test.op.inputs[:2]
    against = [facts.number(v) for v in sides if facts.graph.core(v) != under]
    return test.op.kind in _ASKING and len(against) == 1 and against[0] in (0, 1)
