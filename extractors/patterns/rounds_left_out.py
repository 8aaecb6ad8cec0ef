"""Rounds of a loop that do no work because of what was loaded for them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, masks
from kb.analysis.loops import Loop, Role
from kb.evidence import Decision
from kb.ops import READS, OpKind

_VALUE = "marked rounds skip the work"
_IDLE = frozenset({OpKind.YIELD, OpKind.CONTINUE, OpKind.CONST, OpKind.COPY, OpKind.CAST})
_SUM = """__global__ void join(const float* x, const int* places, float* out, int top, int n) {
    int row = blockIdx.x, at = threadIdx.x;
    float sum = 0.f;
    for (int k = 0; k < top; ++k) {
        int place = places[row * top + k];
        if (place < 0) continue;
        sum += x[place * n + at];
    }
    out[row * n + at] = sum;
}
"""
_HELD = _SUM.replace("if (place < 0) continue;\n        sum", "if (place >= 0) sum")
_SEARCH = """__global__ void least(const float* x, float* out, int top, int n) {
    float best = 1e30f;
    for (int k = 0; k < top; ++k) {
        float v = x[k * n + threadIdx.x];
        if (v > best) continue;
        best = v;
    }
    out[threadIdx.x] = best;
}
"""


class RoundsLeftOut(Pattern):
    """In a loop a branch on what was loaded at a place of the round goes on with the next one, or
    holds the loads of the round but for that; what the loop has found so far is not asked. Told
    where no scores are masked."""

    name = "rounds-left-out-by-what-they-load"
    axis = "mask_application"
    source = "vLLM, moe_align_sum_kernels.cu: slots of experts that are elsewhere"
    matches = (Case(_SUM, _VALUE), Case(_HELD, _VALUE))
    near_misses = (
        NearMiss(_SUM.replace("(place < 0)", "(k * 2 > top)"), why="the round says it, no mark"),
        NearMiss(_SUM.replace("places[row * top + k]", "places[row]"), why="one mark for all"),
        NearMiss(
            _SUM.replace("if (place < 0) continue;", "if (place >= n) { sum += x[k]; continue; }"),
            why="another way for some rounds",
        ),
        NearMiss(_SEARCH, why="a search for the least: what was found so far is asked"),
        NearMiss(_HELD.replace("if (place >= 0) ", ""), why="no branch"),
        NearMiss(
            _HELD.replace(
                "if (place >= 0) sum +=", "float v = 0.f;\n        if (place >= 0) v ="
            ).replace("+ at];\n    }", "+ at];\n        sum += v * 2.f;\n    }"),
            why="zero goes through the sum",
        ),
        NearMiss(ROW_NORM_THREADS, why="no branch"),
        NearMiss(ADD_THREADS, why="no loop"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        loads = facts.graph.node_set(facts.graph.of(*READS))
        items = {loop.node for loop in facts.item_loops}
        loops = {loop.node: loop for loop in facts.loops if loop.node not in items}
        found: dict[Node, None] = {}
        for branch in facts.graph.of(OpKind.IF) if loops and loads else ():
            loop = loops.get(branch.loops[-1]) if branch.loops else None
            if loop is not None and facts.graph.resting(branch.op.inputs[0]) & loads:
                marks = _marks(facts, loop, branch)
                if marks and _leaves_out(facts, loop, branch):
                    found |= dict.fromkeys([*marks, branch])
        if found and not masks(facts):
            yield self.decide(facts, _VALUE, found)


def _marks(facts: Facts, loop: Loop, branch: Node) -> list[Node]:
    """The loads of the round that a branch asks for; none where it asks for what the loop
    carries."""
    graph, condition = facts.graph, branch.op.inputs[0]
    carried = [c.argument for c in loop.carried if c.role is not Role.COUNTER]
    if any(graph.rests_on_argument(condition, argument) for argument in carried):
        return []
    every = [a.name for region in loop.node.op.regions for a in region.arguments]
    compared = comparisons(facts, condition)
    if compared and not any(_for_a_mark(facts, test) for test in compared):
        return []
    tests = [tuple(test.op.inputs[:2]) for test in compared]
    asked = [[facts.held_loads(value) for value in sides] for sides in tests or [(condition,)]]
    held = [a for sides in asked if sum(map(bool, sides)) == 1 for side in sides for a in side]
    return [
        a.node
        for a in dict.fromkeys(held)
        if a.loop is loop.node
        and any(graph.rests_on_argument(v, argument) for v in a.address for argument in every)
    ]


def _for_a_mark(facts: Facts, test: Node) -> bool:
    """Whether a comparison asks for one value, or on which side of a known number another is."""
    one = test.op.kind in (OpKind.EQ, OpKind.NE)
    return one or any(facts.number(value) is not None for value in test.op.inputs[:2])


def _leaves_out(facts: Facts, loop: Loop, branch: Node) -> bool:
    """Whether one side of a branch goes on with the next round; or holds loads, and the other side
    does nothing."""
    inside = [n for n in facts.graph.within(branch) if n.op.kind not in _IDLE]
    reads = {_side(n, branch) for n in inside if n.op.kind in READS}
    for side, region in enumerate(branch.op.regions):
        if region.terminator is not None and region.terminator.kind == OpKind.CONTINUE:
            return side not in reads
    sides = {_side(n, branch) for n in inside}
    if len(sides) != 1 or not any(n.op.kind in READS for n in inside):
        return False
    idle = [side for side in range(len(branch.op.regions)) if side not in sides]
    handed = [value for side in idle for value in facts.graph.handed(branch, side)]
    return not any(_of_round(facts, loop, value) for value in handed)


def _of_round(facts: Facts, loop: Loop, value: str) -> bool:
    """Whether a side hands on something else than what was there before the round."""
    made = facts.graph.producer(facts.graph.core(value))
    return made is not None and made.inside(loop.node)


def _side(node: Node, branch: Node) -> int | None:
    """The side of a branch that a node in it stands on."""
    return next((n.branch for n in (node, *node.around()) if n.parent is branch), None)
