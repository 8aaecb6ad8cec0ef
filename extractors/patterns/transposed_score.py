"""Whether scores are computed transposed, so that the second product needs no transpose of
probabilities."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, POINTER, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import TURNS, Node
from kb.analysis.idioms import Mask, between_lanes, masks, queries_first, recomputed
from kb.analysis.operand_arrays import arrays_of
from kb.analysis.scalings import ELEMENTWISE, elementwise
from kb.analysis.symbolic import AtomKind, sub
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_LATER: dict[str, int] = {OpKind.LE: 1, OpKind.LT: 1, OpKind.GE: 0, OpKind.GT: 0}
"""The side of a comparison that is the larger one."""

_SUMS = ELEMENTWISE | {OpKind.FOR}
_STRAIGHT = vary(
    BACKWARD_KEYS,
    ("s = ct.mma(k, q.permute((1, 0)), ct.full((TN, TM), 0.0, dtype=ct.float32))",
     "s = ct.mma(q, k.permute((1, 0)), ct.full((TM, TN), 0.0, dtype=ct.float32))"),
    ("lse[None, :]", "lse[:, None]"), ("dot[None, :]", "dot[:, None]"),
    ("rows = (m * TM + ct.arange(TM, dtype=ct.int32))[None, :]", "rows = (m * TM + ct.arange(TM, dtype=ct.int32))[:, None]"),  # noqa: E501
    ("cols = (x * TN + ct.arange(TN, dtype=ct.int32))[:, None]", "cols = (x * TN + ct.arange(TN, dtype=ct.int32))[None, :]"),  # noqa: E501
    ("dp = ct.mma(v, o.permute((1, 0)), ct.full((TN, TM), 0.0, dtype=ct.float32))",
     "dp = ct.mma(o, v.permute((1, 0)), ct.full((TM, TN), 0.0, dtype=ct.float32))"),
    ("ct.mma(p.astype(a.dtype), o, gv)", "ct.mma(ct.transpose(p.astype(a.dtype)), o, gv)"),
    ("ct.mma(ds.astype(a.dtype), q, gk)", "ct.mma(ct.transpose(ds.astype(a.dtype)), q, gk)"),
)  # fmt: skip


_QUERIES = (
    POINTER
    + """
@triton.jit
def back(q, k, v, do, gq, stat, dots, n, W: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr):
    rows = tl.program_id(0) * TM + tl.arange(0, TM)
    lane = tl.arange(0, W)
    at = rows[:, None] * W + lane[None, :]
    a = tl.load(q + at)
    o = tl.load(do + at)
    lse = tl.load(stat + rows)
    dot = tl.load(dots + rows)
    acc = tl.zeros([TM, W], tl.float32)
    for j in range(0, n, TN):
        cols = j + tl.arange(0, TN)
        b = tl.load(k + cols[None, :] * W + lane[:, None])
        c = tl.load(v + cols[None, :] * W + lane[:, None])
        p = tl.exp2(tl.dot(a, b) - lse[:, None])
        ds = p * (tl.dot(o, c) - dot[:, None])
        acc += tl.dot(ds.to(tl.float16), tl.trans(b))
    tl.store(gq + at, acc)
"""
)


LINEAR = (
    POINTER
    + """
@triton.jit
def values(q, k, do, gv, rate, W, n, T: tl.constexpr, TK: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    lane = tl.arange(0, TK)
    s = tl.zeros([T, T], tl.float32)
    for j in range(0, W, TK):
        a = tl.load(k + rows[:, None] * W + (j + lane)[None, :])
        b = tl.load(q + rows[None, :] * W + (j + lane)[:, None])
        s += tl.dot(a, b)
    s = tl.where((rows[:, None] <= rows[None, :]) & (rows[:, None] < n), s * rate, 0)
    for j in range(0, W, TK):
        at = rows[:, None] * W + (j + lane)[None, :]
        o = tl.load(do + at)
        tl.store(gv + at, tl.dot(s.to(o.dtype), o))
"""
)
_DECAYED = vary(
    LINEAR,
    ("(rows[:, None] < n), s * rate, 0)", "(rows[:, None] < n), s, 0) * 1.0"),
    ("s = tl.where((rows", "later = tl.where((rows"),
    (
        ", s, 0) * 1.0",
        ", (rows[None, :] - rows[:, None]) * rate, -1.0e30)\n    s = s * tl.exp2(later)",
    ),
)


class TransposedScore(Pattern):
    """In a pass that keeps keys, the key tile is the left operand of the score product; or the
    query tile is, and what is made of the scores is turned, or enters as it is. Without a softmax,
    the side of the diagonal that is kept tells keys from queries."""

    name = "transposed-score-formulation-in-dk-dv"
    axis = "mma_orientation"
    source = "tilelore catalogue, P15; Tri Dao, FlashAttention-2 backward"
    matches = (
        Case(BACKWARD_KEYS, "S^T = K Q^T so P^T is produced directly"),
        Case(_STRAIGHT, "S = QK^T then transpose P for P^T dO"),
        Case(_QUERIES, "S = QK^T, dS enters as it is"),
        Case(BACKWARD_KEYS_POINTER, "S^T = K Q^T so P^T is produced directly"),
        Case(LINEAR, "S^T = K Q^T so P^T is produced directly"),
        Case(_DECAYED, "S^T = K Q^T so P^T is produced directly"),
        Case(
            vary(LINEAR, ("] <= rows", "] >= rows"), ("s.to(o.dtype)", "tl.trans(s).to(o.dtype)")),
            "S = QK^T then transpose P for P^T dO",
        ),
    )
    near_misses = (
        NearMiss(ATTENTION, why="a forward pass: probabilities enter as they are"),
        NearMiss(FLASH_POINTER, why="a forward pass: probabilities enter as they are"),
        NearMiss(
            vary(_DECAYED, ("] <= rows", "] >= rows")), why="a forward pass: rows are queries"
        ),
        NearMiss(vary(LINEAR, ("] <= rows", "] >= rows")), why="a forward pass: rows are queries"),
        NearMiss(
            vary(LINEAR, ("rows[:, None] <= rows[None, :]", "rows[:, None] - W <= rows[None, :]")),
            why="a window: how far back queries look",
        ),
        NearMiss(FLASH_THREADS, why="a forward pass: probabilities enter as they are"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not recomputed(facts):
            yield from self._kept_sides(facts)
            return
        told: dict[str, list[Where]] = {}
        for score in facts.score_products:
            second = self._second(facts, score)
            first = queries_first(facts, score)
            if first is None or not second:
                continue
            turned = [t for p in second for t in self.turns(facts, p)]
            if first and turned:
                told.setdefault("S = QK^T then transpose P for P^T dO", [score, *turned, *second])
            elif first:
                told.setdefault("S = QK^T, dS enters as it is", [score, *second])
            elif not turned:
                below = facts.turned(score.op.operand("rhs"))
                told.setdefault("S^T = K Q^T so P^T is produced directly", [below, score, *second])
        for value, where in told.items():
            yield self.decide(facts, value, where)

    def _kept_sides(self, facts: Facts) -> Iterable[Decision]:
        """Products of which one side of the diagonal is kept, or that decay by a tile of which one
        is, that are the left operand of another: where columns come after rows, the rows are keys;
        where they come before, and are turned, the rows were queries."""
        told: dict[str, list[Where]] = {}
        for later, score, product in self.sided(facts):
            turned = self.turns(facts, product)
            if later == 1 and not turned:
                where = told.setdefault("S^T = K Q^T so P^T is produced directly", [])
                where += [facts.turned(score.op.operand("rhs")), score, product]
                where += [n for pair in self._whole(facts, score) for n in pair]
            elif later == 0 and turned:
                where = told.setdefault("S = QK^T then transpose P for P^T dO", [])
                where += [score, *turned, product]
        for value, where in told.items():
            yield self.decide(facts, value, dict.fromkeys(where))

    def sided(self, facts: Facts) -> Iterable[tuple[int, Node, Node]]:
        """Products of which one side of the diagonal is kept, each with a product of the result;
        before them the axis whose positions are the larger ones."""
        for mask in masks(facts):
            later = [side for c in mask.comparisons if (side := _later(facts, c)) is not None]
            if len({*later}) == 1:
                yield from ((later[0], *pair) for pair in self._kept(facts, mask))

    def _kept(self, facts: Facts, mask: Mask) -> Iterable[tuple[Node, Node]]:
        """Products that a mask keeps one side of, by itself or by what it makes, each with a
        product of the result."""
        made = [(mask.node, mask.node.op.operand("x") or "")] if mask.fill == 0 else []
        for node in facts.graph.downstream(mask.node.result):
            if node.op.kind == OpKind.MUL:
                rest = [v for v in node.op.inputs[:2] if not facts.graph.rests_on(v, mask.node)]
                made += [(node, v) for v in rest]
        for node, value in made:
            above = facts.graph.upstream(value, lambda n: n.op.kind not in _SUMS)
            for score in [n for n in above if n.op.kind in CONTRACTIONS]:
                for product in self._second(facts, score):
                    if node in elementwise(facts, product.op.operand("lhs") or ""):
                        yield score, product

    def _whole(self, facts: Facts, score: Node) -> Iterable[tuple[Node, Node]]:
        """Products of the same two arrays on tiles that are kept whole, each with a product of the
        result, which is not turned."""
        sides = _sides(facts, score)
        for other in facts.contractions if all(sides) else ():
            if other is not score and _sides(facts, other) == sides:
                for product in self._second(facts, other):
                    if not self.turns(facts, product):
                        yield other, product

    def _second(self, facts: Facts, score: Node) -> list[Node]:
        """Products whose left operand is computed from the score."""
        return [
            p
            for p in facts.contractions
            if p is not score and facts.graph.rests_on(p.op.operand("lhs"), score)
        ]

    def turns(self, facts: Facts, product: Node) -> list[Node]:
        """Transposes of computed tiles on the way to the left operand."""
        stop = CONTRACTIONS | {OpKind.EXP, OpKind.EXP2}
        nodes = facts.graph.upstream(product.op.operand("lhs") or "", lambda n: n.op.kind in stop)
        return [n for n in nodes if n.op.kind in TURNS and not facts.held_loads(n.op.inputs[0])]


def keys_first(facts: Facts) -> Iterable[tuple[Node, Node]]:
    """Products of two arrays whose rows are keys and whose columns are queries, each with the
    product that goes over the queries."""
    pattern = TransposedScore()
    for later, score, product in pattern.sided(facts):
        one, other = _sides(facts, score)
        if later == 1 and one and other and one != other and not pattern.turns(facts, product):
            yield score, product


def _sides(facts: Facts, product: Node) -> list[set[str | None]]:
    """The arrays of the left and of the right operand of a product, where no product is in them."""
    return [arrays_of(facts, product.op.operand(role)) for role in ("lhs", "rhs")]


def _window(facts: Facts, comparison: Node) -> bool:
    """Whether positions are compared with others moved on by a number that is handed in, or by more
    than one: the other end of what is kept, where a diagonal is the first."""
    one, other = (facts.values.expr(v) for v in comparison.op.inputs[:2])
    moved = sub(one, other)
    given = [f for f, _ in moved.terms if f and all(a.kind is AtomKind.PARAMETER for a in f)]
    return bool(given) or any(not f and abs(number) > 1 for f, number in moved.terms)


def _later(facts: Facts, comparison: Node) -> int | None:
    """Which axis of a tile counts the positions that are kept where they are the larger ones."""
    if comparison.op.kind not in _LATER or not between_lanes(facts, comparison):
        return None
    if _window(facts, comparison):
        return None
    shapes = [facts.types.shape(v) for v in comparison.op.inputs[:2]]
    axes = [[len(shape) - i for i, e in enumerate(shape) if e != "1"] for shape in shapes]
    later = axes[_LATER[comparison.op.kind]]
    return 2 - later[0] if axes[0] != axes[1] and later in ([1], [2]) else None
