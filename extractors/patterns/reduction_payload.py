"""How the place of an extreme element is found along with its value."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import PAIRS_THREADS, SOFTMAX_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, VIEWS, Node
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import OpKind

_ARGMAX = (
    POINTER
    + """
@triton.jit
def best(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=float("-inf"))
    tl.store(out, tl.argmax(v, axis=0))
"""
)
_SELECT = (
    POINTER
    + """
@triton.jit
def best(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=float("-inf"))
    tl.store(out, tl.min(tl.where(v == tl.max(v, axis=0), at, n), axis=0))
"""
)


_ARGMAX_TILE = (
    TILE
    + """
@ct.kernel
def best(x, out, N: Int, T: Int):
    v = ct.gather(x, (ct.bid(0), ct.arange(T, dtype=ct.int32)), padding_value=-math.inf)
    ct.scatter(out, ct.bid(0), ct.argmax(v, axis=0))
"""
)
_SELECT_TILE = vary(
    _ARGMAX_TILE,
    ("ct.argmax(v, axis=0)",
     "ct.min(ct.where(v == ct.max(v, axis=0), ct.arange(T, dtype=ct.int32), N), axis=0)"),
)  # fmt: skip


class ReductionPayload(Pattern):
    """An arg-reduction, or the smallest index among those that equal the maximum; or a maximum that
    takes its sum along."""

    name = "vocabulary-argmax-tracking-with-lowest-index-tie-break"
    axis = "reduction_payload"
    source = "tilelore catalogue, P96; Triton documentation, argmax: tie_break_left"
    matches = (
        Case(_ARGMAX, "argmax op"),
        Case(_SELECT, "max + min(where(eq,idx,N))"),
        Case(_ARGMAX_TILE, "argmax op"),
        Case(PAIRS_THREADS, "maximum with its sum"),
        Case(_SELECT_TILE, "max + min(where(eq,idx,N))"),
    )
    near_misses = (
        NearMiss(
            PAIRS_THREADS.replace("cg::reduce(warp, own, join)", "own"),
            why="each lane keeps its own pair",
        ),
        NearMiss(SOFTMAX, why="only the maximum's value is used"),
        NearMiss(SOFTMAX_POINTER, why="only the maximum's value is used"),
        NearMiss(SOFTMAX_THREADS, why="only the maximum's value is used"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for node in facts.graph.of(OpKind.REDUCE):
            pair = _pair(facts, node)
            if pair:
                yield self.decide(facts, "maximum with its sum", [node, *pair])
        native = facts.graph.of(OpKind.ARGMAX, OpKind.ARGMIN)
        if native:
            yield self.decide(facts, "argmax op", native)
        for node in facts.graph.of(OpKind.REDUCE_MIN):
            chosen = facts.graph.producer(facts.graph.through(node.op.inputs[0], VIEWS | CASTS))
            if chosen is None or chosen.op.kind != OpKind.SELECT:
                continue
            tests = facts.graph.roots(chosen.op.operand("condition"), OpKind.EQ)
            maxima = facts.graph.roots(chosen.op.operand("condition"), OpKind.REDUCE_MAX)
            if tests and maxima:
                yield self.decide(facts, "max + min(where(eq,idx,N))", (*maxima, chosen, node))


def _pair(facts: Facts, reduction: Node) -> list[Node]:
    """What makes the running maximum and the rescaled sum that one reduction takes in together."""
    made = facts.graph.producer(facts.graph.through(reduction.op.inputs[0], COPIES))
    if made is None or made.op.kind != OpKind.VECTOR:
        return []
    carried = {c.result: c for loop in facts.loops for c in loop.carried}
    states = [carried[v] for v in map(facts.graph.core, made.op.inputs) if v in carried]
    if {c.role for c in states} != {Role.RUNNING_MAXIMUM, Role.RUNNING_SUM}:
        return []
    return [n for c in states if (n := facts.graph.producer(c.next)) is not None]
