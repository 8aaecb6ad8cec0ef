"""States of a recurrence over chunks that are left to another kernel."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import NORM_BACKWARD, ROW_NORM_CHUNKS
from extractors.patterns.cases_rows_pointer import RECURRENT
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS
from kb.analysis.loops import Carried, Loop, updates
from kb.analysis.rebuilt import width
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_CHUNKS = (
    POINTER
    + """
@triton.jit
def states(k, v, h, T, K: tl.constexpr, V: tl.constexpr, C: tl.constexpr):
    s = tl.zeros((K, V), dtype=tl.float32)
    ks = tl.arange(0, K)
    vs = tl.arange(0, V)
    for t in range(0, tl.cdiv(T, C)):
        rows = t * C + tl.arange(0, C)
        tl.store(h + t * K * V + ks[:, None] * V + vs[None, :], s)
        a = tl.load(k + ks[:, None] + rows[None, :] * K)
        b = tl.load(v + rows[:, None] * V + vs[None, :])
        s += tl.dot(a, b)
"""
)
_CHUNKS_TILE = (
    TILE
    + """
@ct.kernel
def states(k, v, h, n, K: Int, V: Int, C: Int):
    s = ct.full((K, V), 0.0, dtype=ct.float32)
    for t in range(n):
        ct.store(h, index=(t, 0, 0), tile=ct.reshape(s, (1, K, V)))
        a = ct.load(k, index=(0, t), shape=(K, C))
        b = ct.load(v, index=(t, 0), shape=(C, V))
        s = ct.mma(a, b, s)
"""
)
SET_BY_BRANCH = (
    POINTER
    + """
@triton.jit
def gates(x, h, T, K: tl.constexpr, V: tl.constexpr, WAY: tl.constexpr):
    at = tl.arange(0, K)[:, None] * V + tl.arange(0, V)[None, :]
    for t in range(0, T):
        a = tl.load(x + t * K * V + at).to(tl.float32)
        if WAY == 0:
            g = a * tl.sigmoid(a)
        elif WAY == 1:
            g = tl.sigmoid(a)
        tl.store(h + t * K * V + at, g.to(tl.bfloat16))
"""
)
_LOOKS = VIEWS | CASTS | TURNS


class StatesLeft(Pattern):
    """A loop over chunks stores the matrix that it carries before every change of it, and nothing
    that is computed with it: what follows from the states is another kernel's."""

    name = "states-of-chunks-left-to-another-kernel"
    axis = "kernel_boundaries"
    source = "Yang et al., Gated Linear Attention (2023), chunkwise form with stored states"
    matches = (
        Case(_CHUNKS, "states of the chunks for a later kernel"),
        Case(_CHUNKS_TILE, "states of the chunks for a later kernel"),
    )
    near_misses = (
        NearMiss(RECURRENT, why="the state is read here, and not stored"),
        NearMiss(
            vary(
                _CHUNKS,
                ("        tl.store(h + t * K * V + ks[:, None] * V + vs[None, :], s)\n", ""),
                ("        s += tl.dot(a, b)\n",
                 "        s += tl.dot(a, b)\n"
                 "    tl.store(h + ks[:, None] * V + vs[None, :], s)\n"),
            ),
            why="one state, after the loop",
        ),
        NearMiss(
            vary(
                _CHUNKS_TILE,
                ("    s = ct", "    u = ct.full((K, V), 1.0, dtype=ct.float32)\n    s = ct"),
                ("ct.reshape(s,", "ct.reshape(u,"),
            ),
            why="what is stored does not change",
        ),
        NearMiss(
            vary(
                _CHUNKS, ("        s +=", "        tl.store(v + t, tl.dot(a.T, s))\n        s +=")
            ),
            why="the state is read here, too",
        ),
        NearMiss(SET_BY_BRANCH, why="branches set what is stored, no round begins with it"),
        NearMiss(NORM_BACKWARD, why="sums that are stored once"),
        NearMiss(ROW_NORM_CHUNKS, why="sums that are not stored"),
        NearMiss(PRODUCT, why="an accumulator that is stored once"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Where] = []
        for loop in facts.loops:
            for state in loop.carried:
                found += self._left(facts, loop, state)
        if found:
            yield self.decide(facts, "states of the chunks for a later kernel", found)

    def _left(self, facts: Facts, loop: Loop, state: Carried) -> list[Where]:
        """The stores of a state as every round begins with it, and what changes it."""
        if width(facts, state.argument) < 2 or state.next == state.argument:
            return []
        stores = [s for s in facts.stores if s.node.inside(loop.node) and _is(facts, s, state)]
        made = updates(facts.graph, state.argument, state.next)[:2] if stores else []
        return [*stores, *made] if made and not _read(facts, state) else []


def _read(facts: Facts, state: Carried) -> bool:
    """Whether a product or a sum takes the state, other than to add to it."""
    for node in facts.graph.downstream(state.argument, 40):
        taken = (v for role, v in node.op.operands if role != "acc")
        if node.op.kind in CONTRACTIONS | REDUCTIONS:
            if any(facts.graph.through(v, _LOOKS) == state.argument for v in taken):
                return True
    return False


def _is(facts: Facts, store: Access, state: Carried) -> bool:
    """Whether a store is of a state, turned on one way of a choice at most."""
    pending = [store.value]
    for value in pending:
        core = facts.graph.through(value, _LOOKS)
        if core == state.argument:
            return True
        made = facts.graph.producer(core)
        if (
            made is not None
            and made.op.kind in (OpKind.IF, OpKind.IF_EXPRESSION)
            and len(pending) < 8
        ):
            pending += facts.graph.feeds(core or "")
    return False
