"""A causal mask is computed for every tile of a loop, although the diagonal crosses few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import between_lanes, masks, sides
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
@triton.jit
def attend(q, k, v, out, n, T: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    d = tl.arange(0, D)
    x = tl.load(q + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    acc = tl.zeros((T, D), dtype=tl.float32)
    top = tl.full((T,), float("-inf"), dtype=tl.float32)
    tot = tl.zeros((T,), dtype=tl.float32)
    for j in range(0, n, T):
        cols = j + tl.arange(0, T)
        y = tl.load(k + cols[None, :] * D + d[:, None], mask=cols[None, :] < n, other=0.0)
        z = tl.load(v + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
        s = tl.dot(x, y)
        s = tl.where(rows[:, None] >= cols[None, :], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp(s - new[:, None])
        scale = tl.exp(top - new)
        tot = tot * scale + tl.sum(p, axis=1)
        acc = acc * scale[:, None] + tl.dot(p.to(z.dtype), z)
        top = new
    tl.store(out + rows[:, None] * D + d[None, :], acc / tot[:, None], mask=rows[:, None] < n)
"""
)
_TILED = (
    TILE
    + """
@ct.kernel
def scores(q, k, lse, out, N: Int, T: Int, D: Int):
    i = ct.bid(0)
    rows = i * T + ct.arange(T, dtype=ct.int32)[:, None]
    x = ct.load(q, index=(i, 0), shape=(T, D))
    l = ct.load(lse, index=(i, 0), shape=(T, 1))
    acc = ct.full((T, D), 0.0, dtype=ct.float32)
    for j in range(ct.cdiv(N, T)):
        cols = j * T + ct.arange(T, dtype=ct.int32)[None, :]
        y = ct.load(k, index=(j, 0), shape=(T, D))
        s = ct.mma(x, ct.transpose(y), ct.full((T, T), 0.0, dtype=ct.float32))
        s = ct.where(rows >= cols, s, -math.inf)
        p = ct.exp(s - l)
        acc = ct.mma(p, y, acc)
    ct.store(out, index=(i, 0), tile=acc)
"""
)


_ASKS = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_FLAGGED = (("        s = ct.where(", "        if C:\n            s = ct.where("),)


_ENDS = ("rows[:, None] >= cols[None, :]", "cols[None, :] < n")


class MaskOnEveryTile(Rule):
    """Inside the loop over keys (or queries) the positions of both axes are compared for each
    tile, or those of one with where the keys or a window end; tiles on one side of the diagonal, or
    wholly inside, are kept whole, and no branch and no second loop spares them the comparison."""

    name = "mask-on-every-tile"
    matches = (
        Case(_POINTER, "causal"),
        Case(_TILED, "causal"),
        Case(vary(_POINTER, _ENDS), "ends"),
        Case(vary(_TILED, ("rows >= cols", "(rows >= cols) & (cols > rows - 64)")), "ends"),
        Case(vary(_TILED, ("D: Int)", "D: Int, C: Bool)"), *_FLAGGED), "causal"),
    )
    near_misses = (
        NearMiss(
            vary(_POINTER, ("        s = tl.where(", "        if j + T > tl.program_id(0) * T:\n"
                            "            s = tl.where(")),
            why="tiles before the diagonal go past the mask",
        ),
        NearMiss(
            vary(_POINTER, _ENDS, ("        s = tl.where(", "        if j + T > n:\n"
                            "            s = tl.where(")),
            why="tiles before the end go past the mask",
        ),
        NearMiss(
            vary(
                _POINTER,
                (_ENDS[0], "(cols[None, :] < n) & ((cols[None, :] - rows[:, None]) % 2 == 0)"),
            ),
            why="every other key is left out: no tile is whole",
        ),
        NearMiss(
            vary(_POINTER, ("rows[:, None] >= cols[None, :]", "rows[:, None] < n")),
            why="the rows of the block, which are the same in each round",
        ),
    )  # fmt: skip
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_bwd_dkdv_kernel", 525),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        found = list(_everywhere(subject.facts))
        if found:
            yield self.finding(
                subject,
                "the causal mask is computed and applied for every tile of the loop; the tiles "
                "that the diagonal does not cross need none",
                "divide the loop in two: tiles before the diagonal without the mask, and those on "
                "it with the mask",
                found,
                Severity.NOTE,
            )
            return
        ends = list(_ends(subject.facts))
        if ends:
            yield self.finding(
                subject,
                "the mask of the ends is computed and applied for every tile of the loop; the "
                "tiles that lie wholly inside need none",
                "leave the mask to the tiles that an end crosses: a loop of their own, or a branch",
                ends,
                Severity.NOTE,
            )


def _scores(facts: Facts) -> Loop | None:
    """The only loop over scores."""
    scored = {id(p.loop): p.loop for p in facts.score_products if p.loop is not None}
    return facts.loop(next(iter(scored.values()))) if len(scored) == 1 else None


def _ends(facts: Facts) -> Iterator[Node]:
    """Selects in the only loop over scores that compare the place of the round with where the keys
    or a window end, under no condition that speaks of the counter."""
    loop = _scores(facts)
    if loop is None or loop.induction is None:
        return
    counter = facts.values.expr(loop.induction).atom
    for mask in masks(facts):
        if mask.node.loop is not loop.node or _branched(facts, mask.node, loop.induction):
            continue
        tests = [
            test
            for test in mask.comparisons
            if test.op.kind in _ASKS
            and any(counter in set(s.atoms()) and s.has(AtomKind.LANE) for s in sides(facts, test))
        ]
        if (
            tests
            and not _windowed(facts, mask.comparisons)
            and not _combed(facts, mask.comparisons)
        ):
            yield mask.node


def _everywhere(facts: Facts) -> Iterator[Node]:
    """Selects by one comparison of both axes, in the only loop over scores, whose counter one side
    moves with, under no condition that speaks of the counter."""
    loop = _scores(facts)  # several loops share the tiles: one may do without the mask
    if loop is None or loop.induction is None:
        return
    counter = facts.values.expr(loop.induction).atom
    found = []
    for mask in masks(facts):
        tests = [c for c in mask.comparisons if between_lanes(facts, c)]
        if not tests or mask.node.loop is not loop.node:
            continue
        moves = any(counter in set(side.atoms()) for side in sides(facts, tests[0]))
        if len(tests) > 1 or not moves or _windowed(facts, tests):
            return  # a band: tiles at both of its ends need the mask
        if not _branched(facts, mask.node, loop.induction):
            found.append(mask.node)
    yield from found[:1]


def _branched(facts: Facts, node: Node, counter: str) -> bool:
    """Whether the select stands in a branch of its loop that depends on the counter."""
    place = node.parent
    while place is not None and place is not node.loop:
        if place.op.inputs and leads(facts.graph, place.op.inputs[0], counter):
            return True
        place = place.parent
    return False


def _combed(facts: Facts, tests: Sequence[Node]) -> bool:
    """Whether a mask leaves out every so many places: no tile is whole."""
    return any(side.has(AtomKind.MOD) for c in tests for side in sides(facts, c))


def _windowed(facts: Facts, tests: Sequence[Node]) -> bool:
    """Whether positions are loaded, so that no tile is known to be whole."""
    return any(
        side.has(AtomKind.LOADED, AtomKind.OPAQUE) for c in tests for side in sides(facts, c)
    )
