"""A matrix of state that stays with its block while the loop goes over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, TILE
from extractors.patterns.cases_rows import NORM_BACKWARD, ROW_NORM_CHUNKS
from extractors.patterns.cases_rows_pointer import RECURRENT, RECURRENT_READ_ONCE
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Carried, Loop, updates
from kb.evidence import Decision
from kb.ops import OpKind

_RECURRENT_TILE = (
    TILE
    + """
@ct.kernel
def steps(k, v, q, out, n, TK: Int, TV: Int):
    state = ct.full((TV, TK), 0.0, dtype=ct.float32)
    for t in range(n):
        a = ct.load(k, index=(t, 0), shape=(1, TK))
        b = ct.reshape(ct.load(v, index=(t, 0), shape=(1, TV)), (TV, 1))
        state = state + a * b
        c = ct.load(q, index=(t, 0), shape=(1, TK))
        ct.store(out, index=(t, 0), tile=ct.reshape(ct.sum(state * c, axis=1), (1, TV)))
"""
)


_LOADED_BY_FLAG = (
    POINTER
    + """
@triton.jit
def steps(k, q, out, n, TK: tl.constexpr, TV: tl.constexpr, EARLY: tl.constexpr):
    at = tl.arange(0, TV)[:, None] * TK + tl.arange(0, TK)[None, :]
    for t in range(n):
        if EARLY:
            a = tl.load(k + t * TV * TK + at)
        b = tl.load(q + t * TK + tl.arange(0, TK))
        if not EARLY:
            a = tl.load(k + t * TV * TK + at)
        tl.store(out + t * TV + tl.arange(0, TV), tl.sum(a * b[None, :], axis=1))
"""
)
_KEPT = VIEWS | CASTS | {OpKind.IF, OpKind.SELECT, OpKind.COPY}
"""What leaves a value as it is, or takes another one in its place."""


class StateInRegisters(Pattern):
    """A carried tile of two axes is changed by what an iteration loads and read in the same loop by
    a reduction; nothing stores it before the loop ends."""

    name = "recurrent-state-held-over-the-loop"
    axis = "row_residency"
    source = "Yang et al., Gated Linear Attention (2023), recurrent form"
    matches = (
        Case(RECURRENT, "state kept in registers over the loop"),
        Case(_RECURRENT_TILE, "state kept in registers over the loop"),
    )
    near_misses = (
        NearMiss(RECURRENT_READ_ONCE, why="a sum that is read once, after the loop"),
        NearMiss(_LOADED_BY_FLAG, why="every round loads the tile anew, here or there"),
        NearMiss(ROW_NORM_CHUNKS, why="partial sums of one row"),
        NearMiss(NORM_BACKWARD, why="partial sums that are read after the loop"),
        NearMiss(PRODUCT, why="an accumulator that is read after the loop"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Where] = []
        for _, state, read in states(facts):
            made = updates(facts.graph, state.argument, state.next)[:1]
            found += [facts.graph.producer(state.init), *made, *read]
        if found:
            yield self.decide(facts, "state kept in registers over the loop", found)


def states(facts: Facts) -> Iterator[tuple[Loop, Carried, list[Node]]]:
    """Loops with the tiles that they carry as state, and where they read it."""
    if facts.contractions or facts.of_threads:
        return
    for loop in facts.loops:
        for state in loop.carried:
            if read := _read(facts, loop, state):
                yield loop, state, read


def _read(facts: Facts, loop: Loop, state: Carried) -> list[Node]:
    """Products of the state, old or new, that the loop sums over an axis."""
    wide = [e for e in facts.types.shape(state.argument) if e != "1"]
    if len(wide) < 2 or not any(a.node.inside(loop.node) for a in facts.feeding(state.next)):
        return []
    steps = updates(facts.graph, state.argument, state.next)
    if all(n.op.kind in _KEPT for n in steps):
        return []
    versions = {state.argument, state.next, *(n.result for n in steps)}
    found = []
    for total in facts.reductions:
        made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
        if made is None or made.op.kind != OpKind.MUL or not total.inside(loop.node):
            continue
        if versions & {facts.graph.core(v) for v in made.op.inputs[:2]}:
            found += [made, total]
    return found
