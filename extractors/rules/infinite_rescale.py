"""A running maximum that is still minus infinity is taken from itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.exponentials import Exponential
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import comparisons
from kb.analysis.loops import Carried, Role
from kb.evidence import Finding
from kb.ops import CONTRACTIONS, OpKind

_ROWS = (
    POINTER
    + """
@triton.jit
def total(x, out, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    m = float("-inf")
    d = 0.0
    for t in range(0, n, T):
        at = t + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=float("-inf"))
        new = tl.maximum(m, tl.max(v, axis=0))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(v - new), axis=0)
        m = new
    tl.store(out + row, m + tl.log(d))
"""
)
_TILES = (
    TILE
    + """
import math
@ct.kernel
def total(x, out, W: Int, N: Int):
    row = ct.bid(0)
    m = ct.full((1, 1), -math.inf, dtype=ct.float32)
    d = ct.zeros((1, 1), dtype=ct.float32)
    for j in range(N):
        v = ct.load(x, index=(row, j), shape=(1, W), padding_mode=ct.PaddingMode.NEG_INF)
        new = ct.maximum(m, ct.max(v, axis=1, keepdims=True))
        d = d * ct.exp(m - new) + ct.sum(ct.exp(v - new), axis=1, keepdims=True)
        m = new
    ct.store(out, index=(row, 0), tile=m + ct.log(d))
"""
)


_PICKED = (
    POINTER
    + """
@triton.jit
def attend(q, k, ids, out, n, T: tl.constexpr, D: tl.constexpr):
    d, row = tl.arange(0, D), tl.program_id(0).to(tl.int64)
    x = tl.load(q + (row * T + tl.arange(0, T))[:, None] * D + d[None, :])
    m = tl.full((T,), float("-inf"), dtype=tl.float32)
    tot = tl.zeros((T,), dtype=tl.float32)
    for t in range(0, n, T):
        i = tl.load(ids + row * n + t + tl.arange(0, T))
        y = tl.load(k + i[None, :] * D + d[:, None], mask=i[None, :] >= 0, other=0.0)
        s = tl.where(i[None, :] >= 0, tl.dot(x, y), float("-inf"))
        new = tl.maximum(m, tl.max(s, axis=1))
        tot = tot * tl.exp(m - new) + tl.sum(tl.exp(s - new[:, None]), axis=1)
        m = new
    tl.store(out + row * T + tl.arange(0, T), m + tl.log(tot))
"""
)


class InfiniteRescale(Rule):
    """A sum of exponentials goes along with the running maximum of values as they are loaded, or of
    scores that numbers in memory leave out. It begins at minus infinity, and nothing is selected
    where it still is minus infinity after the first tile: the factor between old and new maximum
    is then the exponential of minus infinity less minus infinity, a NaN that no later tile takes
    away."""

    name = "infinite-rescale"
    matches = (
        Case(_ROWS, "NaN"),
        Case(_TILES, "NaN"),
        Case(
            vary(
                _ROWS, ("    m = float", "    if n > 8:\n        tl.debug_barrier()\n    m = float")
            ),
            "NaN",
        ),
        Case(_PICKED, "NaN"),
    )
    near_misses = (
        NearMiss(
            vary(_PICKED, ("tl.where(i[None, :] >= 0, tl",
                           "tl.where(t + tl.arange(0, T)[None, :] < n, tl")),
            why="the first tile has a key",
        ),
        NearMiss(
            vary(_ROWS, ('m = float("-inf")', "m = -1e30")), why="the difference is zero at first"
        ),
        NearMiss(
            vary(
                _ROWS,
                ("        d = d", '        low = tl.where(new == float("-inf"), 0.0, new)\n'
                 "        d = d"),
                ("tl.exp(m - new)", "tl.exp(m - low)"),
                ("tl.exp(v - new)", "tl.exp(v - low)"),
            ),
            why="zero is taken away where the maximum is minus infinity",
        ),
        NearMiss(
            vary(_ROWS, ("mask=at < n, other=float(\"-inf\"))", "mask=at < n, other=0.0) * 1.0\n"
                         "        v = tl.where(at < n, tl.maximum(v, -1e4), float(\"-inf\"))")),
            why="a value of the first tile is finite",
        ),
        NearMiss(
            vary(_ROWS, ("tl.exp(m - new)", "tl.where(m == new, 1.0, tl.exp(m - new))")),
            why="the factor is one where nothing changed",
        ),
    )  # fmt: skip
    seen = (
        Seen(
            "liger-kernel", "liger_kernel/ops/cross_entropy.py", "liger_cross_entropy_kernel", 139
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if len(facts.exponentials) < 2:
            return
        for factor, begun in _factors(facts):
            yield self.finding(
                subject,
                "the running maximum begins at minus infinity: where a row begins with a tile of "
                "minus infinity only, it is -inf minus -inf in the factor that rescales the sum, "
                "and the NaN stays in the sum",
                "take away zero, or take one as the factor, where the new maximum is minus "
                "infinity; or begin at a large negative number",
                [begun, factor.node],
            )
            return


def _factors(facts: Facts) -> Iterator[tuple[Exponential, Node | None]]:
    """Factors between two states of a running maximum over loaded values."""
    for loop in facts.loops:
        for carried in loop.of(Role.RUNNING_MAXIMUM):
            if facts.number(carried.init) != float("-inf"):
                continue
            for power in facts.exponentials:
                inside = power.rescale and power.node.inside(loop.node)
                if (
                    inside
                    and _between(facts, power, carried, loop.node)
                    and (_loaded(facts, carried) or _chosen(facts, carried, loop.node))
                ):
                    yield power, facts.graph.producer(facts.graph.core(carried.init))


def _between(facts: Facts, power: Exponential, carried: Carried, loop: Node) -> bool:
    """Whether an exponential is of the old maximum less the new one, as they stand, and nothing in
    the loop asks for it again."""
    looks = VIEWS | CASTS
    old = facts.graph.through(power.score, looks)
    new = facts.graph.through(power.statistic, looks)
    selected = any(n.op.kind == OpKind.SELECT for n in facts.graph.users(power.node.result))
    return (
        old == carried.argument
        and new == facts.graph.through(carried.next, looks)
        and not selected
        and not any(guard.inside(loop) for guard in facts.guards(power.node))
    )


def _loaded(facts: Facts, carried: Carried) -> bool:
    """Whether the maximum is of values as they are loaded, on some way through the branches: not
    of products, and not of what arithmetic holds above minus infinity."""
    tops = facts.graph.upstream(carried.next, lambda n: n.op.kind == OpKind.REDUCE_MAX)
    pending = [node.op.inputs[0] for node in tops if node.op.kind == OpKind.REDUCE_MAX]
    seen, found = set(pending), False
    for value in pending:
        node = facts.graph.producer(value)
        if node is not None and (node.op.kind in _SCORES or len(seen) > MAX_VALUES):
            return False
        if node is not None and facts.access(node) is not None:
            found = True
        elif node is None or node.op.kind not in _BOUNDED:
            select = node is not None and node.op.kind == OpKind.SELECT
            feeds = node.op.inputs[1:] if select and node else facts.graph.feeds(value)
            more = [feed for feed in feeds if feed not in seen]
            seen |= set(more)
            pending += more
    return found


def _chosen(facts: Facts, carried: Carried, loop: Node) -> bool:
    """Whether minus infinity is selected where numbers say so that each round loads, one for each
    lane: all of the first tile may be left out."""
    loaded = facts.graph.node_set(
        load.node
        for load in facts.loads
        if load.node.loop is loop and load.node.result in facts.offset_loads
    )
    tops = facts.graph.upstream(carried.next, lambda n: n.op.kind in _SCORES)
    return any(
        node.op.kind == OpKind.SELECT
        and float("-inf") in map(facts.number, node.op.inputs[1:])
        and any(
            facts.graph.rests_on_any(side, loaded)
            for test in comparisons(facts, node.op.inputs[0])
            for side in test.op.inputs
        )
        for node in tops
    )


MAX_VALUES = 200
"""Values that are looked at between a load and a maximum."""

_BOUNDED = (OpKind.TANH, OpKind.SIGMOID, OpKind.MAXIMUM, OpKind.CLAMP, OpKind.EXP, OpKind.EXP2,
            OpKind.ABS)  # fmt: skip
"""What gives a finite number for minus infinity."""

_SCORES = CONTRACTIONS | {OpKind.REDUCE_SUM}
