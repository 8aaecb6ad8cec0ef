"""A matrix of state stays on chip while the steps that change it stream by."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import NORM_BACKWARD, ROW_NORM_CHUNKS
from extractors.patterns.cases_rows_pointer import RECURRENT, RECURRENT_READ_ONCE
from extractors.patterns.state_in_registers import states
from extractors.patterns.step_loads import CHUNKS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.loops import Carried, Loop, updates
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, OpKind

_FILLS = frozenset({OpKind.FULL, OpKind.ZEROS, OpKind.ZEROS_LIKE})
_SAVED = vary(
    PRODUCT,
    (
        "        x = ct.load(a",
        "        ct.store(out, index=(m, k), tile=ct.astype(acc, b.dtype))\n        x = ct.load(a",
    ),
)
_PLACED = vary(
    PRODUCT,
    (
        "        x = ct.load(a, index=(m, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)\n",
        "        if TM > 64:\n            x = ct.load(a, index=(m, k), shape=(TM, TK))\n"
        "        if TM <= 64:\n            x = ct.load(a, index=(m, k), shape=(TM, TK))\n",
    ),
)
_TURNED = (
    POINTER
    + """
@triton.jit
def states(k, v, out, n, T: tl.constexpr, W: tl.constexpr, LAST: tl.constexpr):
    at = tl.arange(0, W)
    h = tl.zeros((W, W), dtype=tl.float32)
    for i in range(n):
        row = i * T + tl.arange(0, T)
        to = out + i * W * W + at[:, None] * W + at[None, :]
        tl.store(to, (tl.trans(h) if LAST else h).to(tl.float16))
        a = tl.load(k + at[:, None] + row[None, :] * W)
        h = tl.dot(a, tl.load(v + row[:, None] * W + at[None, :]), h)
"""
)


_DECAYED = (
    POINTER
    + """
@triton.jit
def scan(x, g, out, n, s, W: tl.constexpr):
    at = tl.program_id(0) * W + tl.arange(0, W)
    h = tl.zeros((W,), dtype=tl.float32)
    for i in range(n):
        h = tl.load(g + i * s + at) * h + tl.load(x + i * s + at)
        tl.store(out + i * s + at, h.to(tl.float16))
"""
)
_DECAYED_TILE = (
    TILE
    + """
@ct.kernel
def scan(x, g, out, n: Int, W: Int):
    at = ct.bid(0)
    h = ct.zeros((1, W), dtype=ct.float32)
    for i in range(n):
        ct.store(out, index=(i, at), tile=ct.astype(h, out.dtype))
        d = ct.load(g, index=(i, at), shape=(1, W))
        h = d * h + ct.load(x, index=(i, at), shape=(1, W))
"""
)


class StationaryState(Pattern):
    """A tile of two axes is carried over a loop, which loads what changes it and what reads it; or
    a row that every round scales, adds to and stores."""

    name = "recurrent-state-stays-and-steps-stream"
    axis = "stationary_operand"
    source = "Yang et al., Gated Linear Attention (2023), recurrent form"
    matches = (
        Case(RECURRENT, "state kept, steps streamed"),
        Case(CHUNKS, "state kept, steps streamed"),
        Case(_SAVED, "state kept, steps streamed"),
        Case(_TURNED, "state kept, steps streamed"),
        Case(_DECAYED, "state kept, steps streamed"),
        Case(_DECAYED_TILE, "state kept, steps streamed"),
    )
    near_misses = (
        NearMiss(RECURRENT_READ_ONCE, why="a sum that is read once, after the loop"),
        NearMiss(ROW_NORM_CHUNKS, why="partial sums of one row"),
        NearMiss(NORM_BACKWARD, why="partial sums that are read after the loop"),
        NearMiss(ATTENTION, why="sums that are rescaled, not read"),
        NearMiss(_PLACED, why="a tile that one of two branches loads in every round"),
        NearMiss(PRODUCT, why="an accumulator that is read after the loop"),
        NearMiss(vary(_DECAYED, ("+ at) * h +", "+ at) + h +")), why="a running sum"),
        NearMiss(vary(_DECAYED, (" h.to(", " (at + i).to(")), why="the state is not read"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Where] = []
        for loop, state, read in states(facts):
            made = updates(facts.graph, state.argument, state.next)
            loads = [a for a in facts.feeding(state.next) if a.node.inside(loop.node)]
            loads += [a for n in read for v in n.op.inputs for a in facts.held_loads(v)]
            found += [*_start(facts, state), *made, *read, *loads]
        for loop in facts.loops if facts.contractions and not facts.of_threads else ():
            for state in loop.carried:
                if len(facts.types.shape(state.argument)) > 1 and _begun(facts, state):
                    found += self._chunks(facts, loop, state)
        for loop in [] if facts.contractions or facts.of_threads else facts.loops:
            for state in loop.carried:
                found += _recurrence(facts, loop, state)
        if found:
            yield self.decide(facts, "state kept, steps streamed", found)

    def _chunks(self, facts: Facts, loop: Loop, state: Carried) -> list[Where]:
        """Of a tile that every round stores, or multiplies with another one, before it is changed:
        where it begins, where it is read, and the loads that it is changed with."""
        read: list[Where] = []
        pending = [state.argument]
        for value in pending:
            for node, role in facts.graph.uses.get(value, ()):
                if node.op.kind in VIEWS | CASTS | TURNS and node.inside(loop.node):
                    pending.append(node.result)
                elif node.op.kind == OpKind.YIELD and _of_branch(node, loop):
                    pending += [v for v in facts.graph.onward(node, value) if v not in pending]
                elif node.op.kind in CONTRACTIONS and role != "acc":
                    read.append(node)
                elif (access := facts.access(node)) is not None and access.value == value:
                    read.append(access)
        loads = [a for a in facts.feeding(state.next) if a.loop is loop.node] if read else []
        return [*_start(facts, state), *read, *loads] if loads else []


def _recurrence(facts: Facts, loop: Loop, state: Carried) -> list[Where]:
    """Of a row that every round scales and adds loads to, and stores: where it begins and changes,
    the loads and the stores."""
    if not [e for e in facts.types.shape(state.argument) if e != "1"]:
        return []
    made = updates(facts.graph, state.argument, state.next)
    kinds = {n.op.kind for n in made}
    if OpKind.FMA not in kinds and not {OpKind.MUL, OpKind.ADD} <= kinds:
        return []
    versions = {state.argument, *(n.result for n in made)}
    stores = [s for s in facts.stores if s.node.inside(loop.node) and not s.is_atomic]
    stores = [s for s in stores if facts.graph.core(s.value) in versions]
    loads = [a for a in facts.feeding(state.next) if a.node.inside(loop.node)]
    if not stores or not loads:
        return []
    return [*_start(facts, state), *made, *loads, *stores]


def _start(facts: Facts, state: Carried) -> list[Where]:
    """What a state begins with, and the fill below a branch that may load it."""
    above = facts.graph.upstream(state.init, lambda n: n.op.kind in _FILLS | READS)
    return [facts.graph.producer(state.init), *(n for n in above if n.op.kind in _FILLS)]


def _begun(facts: Facts, state: Carried) -> bool:
    """Whether a state is there before the loop: no tile that branches of every round load."""
    made = facts.graph.producer(state.init)
    return made is None or made.op.kind != OpKind.UNDEF


def _of_branch(node: Node, loop: Loop) -> bool:
    """Whether a value is handed to what follows a branch within a loop."""
    owner = node.parent
    branches = (OpKind.IF, OpKind.IF_EXPRESSION)
    return owner is not None and owner.op.kind in branches and owner.inside(loop.node)
