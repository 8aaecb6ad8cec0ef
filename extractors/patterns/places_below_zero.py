"""Places that are looked up and may be marked as none by a number below zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import ATOMICS, READS, OpKind

_VALUE = "places below zero left out"
_JOINED = frozenset({OpKind.AND, OpKind.OR, OpKind.NOT, OpKind.BIT_AND, OpKind.BIT_OR})
_AGAINST = {
    OpKind.LT: 0, OpKind.GE: 0, OpKind.LE: -1, OpKind.GT: -1, OpKind.EQ: -1, OpKind.NE: -1,
}  # fmt: skip
"""What a comparison asks of numbers below zero, by the number on its right."""
_LEAVING = (OpKind.RETURN, OpKind.CONTINUE, OpKind.BREAK)

_SLOTS = """__global__ void keep(const float* x, const int* slots, float* cache, int width) {
    int slot = slots[blockIdx.x];
    if (slot < 0) return;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        cache[slot * width + i] = x[blockIdx.x * width + i];
}
"""
_ROUTES = """__global__ void sum(const float* x, const int* rows, float* out, int each, int width) {
    int at = threadIdx.x;
    float sum = 0.f;
    for (int k = 0; k < each; ++k) {
        int row = rows[blockIdx.x * each + k];
        if (row != -1) sum += x[row * width + at];
    }
    out[blockIdx.x * width + at] = sum;
}
"""


class PlacesBelowZero(Pattern):
    """Threads ask whether a whole number that they loaded is below zero, or minus one, and leave,
    go on, or leave out what would be read or written where the number says."""

    name = "places-below-zero-left-out"
    axis = "boundary_handling"
    source = "vLLM, cache_kernels.cu: slots of padding tokens are -1"
    matches = (Case(_SLOTS, _VALUE), Case(_ROUTES, _VALUE))
    near_misses = (
        NearMiss(_SLOTS.replace("slot < 0", "slot < 4"), why="places in the range are left out"),
        NearMiss(_SLOTS.replace("slot * width", "blockIdx.x * width"), why="it says no place"),
        NearMiss(_SLOTS.replace("slots[blockIdx.x]", "width"), why="nothing is looked up"),
        NearMiss(_ROUTES.replace("if (row != -1) ", ""), why="nothing is asked"),
        NearMiss(ADD_THREADS, why="no place is looked up"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        graph = facts.threads
        found: list[Node] = []
        for branch in graph.of(OpKind.IF) if facts.of_threads else ():
            for test, load in _asked(facts, branch):
                if any(graph.rests_on(place, load) for place in _places(facts, branch)):
                    found += [branch, test]
        if found:
            yield self.decide(facts, _VALUE, found)


def _asked(facts: Facts, branch: Node) -> Iterator[tuple[Node, Node]]:
    """Comparisons of a branch that tell numbers below zero, with the loads of what they compare."""
    graph, values = facts.threads, facts.thread_values
    for test in graph.upstream(branch.op.inputs[0], lambda n: n.op.kind not in _JOINED):
        kind = OpKind(test.op.kind)
        if kind in _AGAINST and values.expr(test.op.inputs[1]).constant == _AGAINST[kind]:
            load = graph.producer(graph.through(test.op.inputs[0], VIEWS | CASTS))
            if load is not None and load.op.kind in READS and not facts.shared.holds(load.op):
                yield test, load


def _places(facts: Facts, branch: Node) -> Iterator[str]:
    """Where memory is touched in a branch, or behind it where one of its sides leaves."""
    ends = [one.terminator for one in branch.op.regions]
    leaves = any(end is not None and end.kind in _LEAVING for end in ends)
    for node in facts.threads.of(*READS, OpKind.STORE, *ATOMICS):
        behind = leaves and node.index > branch.last
        if (node.inside(branch) or behind) and (pointer := node.op.operand("pointer")):
            yield pointer
