"""An extreme value and its place, both carried by a loop and chosen by one comparison."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, TILE, vary
from extractors.patterns.cases_rows_threads import SOFTMAX_CHUNKS_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Carried, Loop
from kb.evidence import Decision
from kb.ops import OpKind

_STRICT = (OpKind.GT, OpKind.LT)
_ORDERS = (*_STRICT, OpKind.GE, OpKind.LE)
_CHOICES = (OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION)
_EXTREMES = (OpKind.MAXIMUM, OpKind.MINIMUM)
_POINTER = (
    POINTER
    + """
@triton.jit
def best(x, out, place, n, T: tl.constexpr):
    lane = tl.arange(0, T)
    top = tl.full([T], float("-inf"), tl.float32)
    at = tl.full([T], -1, tl.int32)
    for i in range(n):
        v = tl.load(x + i * T + lane)
        more = v > top
        top = tl.where(more, v, top)
        at = tl.where(more & (lane < n), i, at)
    tl.store(out + lane, top)
    tl.store(place + lane, at)
"""
)
_TILE = (
    TILE
    + """
@ct.kernel
def best(x, out, place, n: int, T: Int):
    top = ct.full((T,), -math.inf, dtype=ct.float32)
    at = ct.full((T,), -1, dtype=ct.int32)
    for i in range(n):
        v = ct.load(x, index=(i,), shape=(T,))
        at = ct.where(v > top, i, at)
        top = ct.maximum(v, top)
    ct.store(out, index=(0,), tile=top)
    ct.store(place, index=(0,), tile=at)
"""
)
_THREADS = """__global__ void best(const float* x, int* out, int n) {
    float top = -1e30f;
    int at = 0;
    for (int i = 0; i < n; ++i) {
        float v = x[threadIdx.x * n + i];
        if (v > top) { top = v; at = i; }
    }
    out[threadIdx.x] = at;
}
"""


class SelectedIndex(Pattern):
    """In a loop, a comparison with the best value so far chooses the value and its place."""

    name = "place-carried-beside-the-extreme-value"
    axis = "reduction_payload"
    source = "Triton documentation, argmax: tie_break_left; cuDNN, max pooling with indices"
    matches = (
        Case(_POINTER, "index selected by a strict comparison"),
        Case(_TILE, "index selected by a strict comparison"),
        Case(_THREADS, "index selected by a strict comparison"),
        Case(vary(_POINTER, ("v > top", "v >= top")), "index selected by a comparison"),
    )
    near_misses = (
        NearMiss(
            vary(_POINTER, ("at = tl.where(more & (lane < n), i, at)", "at = tl.maximum(at, i)")),
            why="the place does not look at the comparison",
        ),
        NearMiss(
            vary(_TILE, ("v > top, i, at", "v > 0, i, at")),
            why="values are compared with a number",
        ),
        NearMiss(_THREADS.replace("at = i;", ""), why="only the value is kept"),
        NearMiss(
            vary(
                _THREADS,
                ("if (v > top) { top = v; at = i; }", "if (v > top) at = i; else top = i;"),
            ),
            why="a search: the value that is compared is not kept",
        ),
        NearMiss(ATTENTION, why="only the maximum is kept"),
        NearMiss(SOFTMAX_CHUNKS_THREADS, why="only the maximum is kept"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            if len(loop.carried) < 2 or not any(
                n.inside(loop.node) for n in facts.graph.of(*_ORDERS)
            ):
                continue
            chosen = {c: self._choices(facts, loop, c) for c in loop.carried}
            for best in loop.carried:
                tests = self._tests(facts, loop, best)
                beside = [n for c in loop.carried if c is not best for n in chosen[c]]
                places = [n for n in beside if any(self._by(facts, n, t) for t in tests)]
                if places and (chosen[best] or self._grown(facts, best)):
                    value = "index selected by a comparison"
                    if all(t.op.kind in _STRICT for t in tests):
                        value = "index selected by a strict comparison"
                    own = [*chosen[best], *self._grown(facts, best)]
                    yield self.decide(facts, value, [*tests, *own, *places])
                    return

    def _choices(self, facts: Facts, loop: Loop, state: Carried) -> list[Node]:
        """The choice between something new and what a state was."""
        made = facts.graph.producer(facts.graph.core(state.next))
        if made is None or made.op.kind not in _CHOICES or not made.inside(loop.node):
            return []
        ends = [facts.graph.core(v) for v in facts.graph.feeds(str(facts.graph.core(state.next)))]
        return [made] if state.argument in ends else []

    def _grown(self, facts: Facts, state: Carried) -> list[Node]:
        """The maximum or minimum that a state becomes."""
        made = facts.graph.producer(facts.graph.through(state.next, VIEWS | CASTS))
        if made is None or made.op.kind not in _EXTREMES:
            return []
        return [made] if state.argument in map(facts.graph.core, made.op.inputs[:2]) else []

    def _tests(self, facts: Facts, loop: Loop, state: Carried) -> list[Node]:
        """Comparisons of a state with something loaded that it may become."""
        core = facts.graph.core
        made = facts.graph.producer(core(state.next))
        if made is None:
            return []
        ends = {core(v) for v in (*facts.graph.feeds(str(core(state.next))), *made.op.inputs)}
        return [
            n
            for n in facts.graph.of(*_ORDERS)
            if n.inside(loop.node)
            and state.argument in (sides := [core(v) for v in n.op.inputs[:2]])
            and any(v in ends and v != state.argument for v in sides)
            and facts.feeding(n.result)
        ]

    def _by(self, facts: Facts, choice: Node, test: Node) -> bool:
        condition = choice.op.operand("condition") or choice.op.inputs[0]
        return facts.graph.rests_on(condition, test)
