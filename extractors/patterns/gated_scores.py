"""Products of queries and keys that fade with what lies between their positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.lane_products import score_sums
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_ELEMENTWISE = VIEWS | CASTS | {OpKind.MUL, OpKind.SELECT, OpKind.IF, OpKind.FOR, OpKind.ADD}
_POINTER = (
    POINTER
    + """
@triton.jit
def chunk(q, k, v, g, h, out, T: tl.constexpr, W: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    lane = tl.arange(0, W)
    a = tl.load(q + at[:, None] * W + lane[None, :])
    b = tl.load(k + at[None, :] * W + lane[:, None])
    gate = tl.load(g + at)
    s = tl.dot(a, b)
    o = tl.dot(a, tl.load(h + lane[:, None] * W + lane[None, :]))
    o = o * tl.exp(gate)[:, None]
    s = s * tl.exp(gate[:, None] - gate[None, :])
    s = tl.where(at[:, None] >= at[None, :], s, 0.0)
    x = tl.load(v + at[:, None] * W + lane[None, :])
    tl.store(out + at[:, None] * W + lane[None, :], o + tl.dot(s.to(x.dtype), x))
"""
)
_TILE = (
    TILE
    + """
@ct.kernel
def chunk(q, k, g, out, T: Int, W: Int):
    i = ct.bid(0)
    a = ct.load(q, index=(i, 0), shape=(T, W))
    b = ct.load(k, index=(i, 0), shape=(T, W))
    rows = ct.load(g, index=(i,), shape=(T,))
    cols = ct.load(g, index=(i,), shape=(T,))
    s = ct.mma(a, ct.transpose(b), ct.full((T, T), 0.0, dtype=ct.float32))
    s = s * ct.exp(ct.reshape(rows, (T, 1)) - ct.reshape(cols, (1, T)))
    ct.store(out, index=(i, 0), tile=s)
"""
)
_ADDED = vary(
    ATTENTION_POINTER,
    ("(a, b, c, out,", "(a, b, c, g, out,"),
    (
        "tl.trans(k)) * rate",
        "tl.trans(k)) + (tl.load(g + rows)[:, None] - tl.load(g + cols)[None, :])",
    ),
)


class GatedScores(Pattern):
    """A matrix product is multiplied by the exponential of the difference between one vector along
    its rows and the same along its columns; with it, products multiplied by the exponential of
    that vector."""

    name = "scores-decayed-by-gates"
    axis = "score_transform"
    source = "Yang et al., Gated Linear Attention Transformers (2024), section 4: chunkwise form"
    matches = (
        Case(_POINTER, "exp(g_i - g_j) decay"),
        Case(_TILE, "exp(g_i - g_j) decay"),
        Case(_ADDED, "cumulated gates added"),
    )
    near_misses = (
        NearMiss(
            vary(_POINTER, (" - gate[None, :]", "")),
            why="rows are weighed, whatever the column is",
        ),
        NearMiss(
            vary(_TILE, ("cols = ct.load(g, ", "cols = ct.load(q, ")),
            why="two different vectors",
        ),
        NearMiss(
            vary(
                _POINTER,
                ("gate = tl.load(g + at)", "gate = tl.load(g + at[:, None] * W + at[None, :])"),
                ("o * tl.exp(gate)[:, None]", "o"),
                ("gate[:, None] - gate[None, :]", "gate - tl.load(g)"),
            ),
            why="every element has a gate of its own",
        ),
        NearMiss(
            vary(_ADDED, ("tl.load(g + cols)", "tl.load(c + cols)")), why="of two arrays, no gate"
        ),
        NearMiss(ATTENTION, why="exponentials of the scores themselves"),
        NearMiss(ATTENTION_POINTER, why="exponentials of the scores themselves"),
        NearMiss(FLASH_THREADS, why="exponentials of the scores themselves"),
        NearMiss(PRODUCT, why="nothing fades"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        scores = facts.score_products or score_sums(facts)
        sums = facts.graph.of(OpKind.ADD) if scores else []
        added = [n for total in sums for n in self._added(facts, total, scores)]
        if added:
            yield self.decide(facts, "cumulated gates added", dict.fromkeys(added))
        if not facts.contractions or not facts.exponentials:
            return
        decays = [n for n in facts.graph.of(OpKind.EXP, OpKind.EXP2) if self._decays(facts, n)]
        faded = [n for d in decays for n in self._fades(facts, d)]
        if not faded:
            return
        vectors = {v for d in decays for v in self._vectors(facts, d)}
        alone = [
            n
            for e in facts.graph.of(OpKind.EXP, OpKind.EXP2)
            if e not in decays and facts.graph.core(e.op.inputs[0]) in vectors
            for n in self._fades(facts, e)
        ]
        yield self.decide(facts, "exp(g_i - g_j) decay", [*decays, *faded, *alone])

    def _added(self, facts: Facts, total: Node, scores: Sequence[Node]) -> list[Node]:
        """A sum of scores and the difference of two loads of one array, with what is loaded."""
        for score, gate in (total.op.inputs[:2], total.op.inputs[1::-1]):
            made = facts.graph.producer(facts.graph.core(gate))
            if made is None or made.op.kind != OpKind.SUB:
                continue
            if not any(facts.graph.rests_on(score, n) for n in scores):
                continue
            sides = [
                [a for n in facts.graph.ends(v, VIEWS | CASTS) if (a := facts.access(n))]
                for v in made.op.inputs[:2]
            ]
            arrays = {a.array for side in sides for a in side}
            if all(sides) and len(arrays) == 1:
                return [*(a.node for side in sides for a in side), made, total]
        return []

    def _vectors(self, facts: Facts, decay: Node) -> list[str | None]:
        """The two sides of the difference that is raised, before they are spread."""
        made = facts.graph.producer(facts.graph.core(decay.op.inputs[0]))
        sides = made.op.inputs[:2] if made is not None and made.op.kind == OpKind.SUB else ()
        return [facts.graph.core(v) for v in sides]

    def _decays(self, facts: Facts, node: Node) -> bool:
        """True when a tile of differences between one vector's elements is raised."""
        sides = self._vectors(facts, node)
        if len(sides) != 2 or sum(e != "1" for e in facts.types.shape(node.result)) < 2:
            return False
        if any(facts.graph.roots(v, *CONTRACTIONS) for v in sides):
            return False
        made = facts.graph.producer(facts.graph.core(node.op.inputs[0]))
        shapes = [facts.types.shape(v) for v in made.op.inputs[:2]] if made is not None else []
        spread = [{i for i, e in enumerate(shape) if e != "1"} for shape in shapes]
        if any(len(axes) != 1 for axes in spread) or spread[0] & spread[1]:
            return False
        arrays = [{a.array for a in facts.feeding(v)} for v in sides]
        return sides[0] == sides[1] or (bool(arrays[0]) and arrays[0] == arrays[1])

    def _fades(self, facts: Facts, factor: Node) -> list[Node]:
        """Products of a factor with something that elementwise steps make of a matrix product."""
        pending = [factor.result]
        found = []
        for value in pending:
            for user in facts.graph.users(value):
                if user.op.kind in VIEWS | CASTS | {OpKind.SELECT}:
                    pending += [r.name for r in user.op.results if len(pending) < 16]
                if user.op.kind == OpKind.MUL and any(
                    n.op.kind in CONTRACTIONS
                    for v in user.op.inputs[:2]
                    if v != value
                    for n in facts.graph.upstream(v, lambda n: n.op.kind not in _ELEMENTWISE)
                ):
                    found.append(user)
        return found
