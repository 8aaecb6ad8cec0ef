"""Where the numbers of rows lie that a softmax was normalised by: at several indices, at one linear
index, or at strides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.flattened_side_buffer import FlattenedSideBuffer
from extractors.patterns.operand_under_flag import standing
from extractors.patterns.side_index import SideIndex, apart
from extractors.patterns.side_strides import SideStrides
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import HELD, Facts
from kb.analysis.rebuilt import width
from kb.analysis.strides import joined_at
from kb.analysis.symbolic import AtomKind, nested
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_SCALED = HELD | {OpKind.MUL, OpKind.SELECT}
_MOVING = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LANE)

_TOKENS = (
    POINTER
    + """
@triton.jit
def back(q, k, stat, out, H: tl.constexpr, D: tl.constexpr, T: tl.constexpr):
    head = tl.program_id(1)
    m = tl.program_id(0) * T + tl.arange(0, T)
    at = (m[:, None] * H + head) * D + tl.arange(0, D)[None, :]
    s = tl.dot(tl.load(q + at), tl.trans(tl.load(k + at)))
    by = tl.load(stat + m * H + head)
    p = tl.exp(s - by[:, None])
    tl.store(out + at, tl.dot(p, tl.load(k + at)))
"""
)
_STRIDED = vary(
    _TOKENS,
    ("stat, out, H", "stat, out, step, hop, H"),
    ("stat + m * H + head", "stat + m * step + head * hop"),
)
_PARTS = (
    TILE
    + """
@ct.kernel
def join(parts, stat, out, N: Int, D: Int):
    row = ct.bid(0)
    head = ct.bid(1)
    v = ct.load(stat, index=(row, head, 0), shape=(1, 1, N)).reshape((N,))
    w = ct.exp(v - ct.max(v, axis=0))
    x = ct.load(parts, index=(row, head, 0, 0), shape=(1, 1, N, D)).reshape((N, D))
    y = ct.sum(x * w.reshape((N, 1)), axis=0) / ct.sum(w, axis=0)
    ct.store(out, index=(row, head, 0), tile=y.reshape((1, 1, D)))
"""
)
_STORED = (
    TILE
    + """
@ct.kernel
def part(x, y, stat, N: Int):
    row = ct.bid(0)
    piece = ct.bid(1)
    v = ct.load(x, index=(row, piece), shape=(1, N))
    top = ct.max(v, axis=1, keepdims=True)
    e = ct.exp(v - top)
    ct.store(y, index=(row, piece), tile=e)
    ct.store(stat, index=(row, piece), tile=top + ct.log(ct.sum(e, axis=1, keepdims=True)))
"""
)
_ROW = (
    POINTER
    + """
@triton.jit
def back(x, stat, out, H: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    at = row * H + tl.arange(0, T)
    less = tl.load(stat + row * H + tl.program_id(1))
    tl.store(out + at, tl.exp(tl.load(x + at) - less))
"""
)


class StatisticPositions(Pattern):
    """One number for each row, which exponentials are taken of or less than, or which is made of
    what exponentials gave, lies at two positions or more: indices, or terms of an address."""

    name = "statistic-at-several-positions"
    axis = "auxiliary_layout"
    source = "Dao et al., FlashAttention (2022), algorithm 2: a logarithm of the sum for each row"
    matches = (
        Case(_TOKENS, "1-D linear index scatter/gather"),
        Case(_STRIDED, "strided"),
        Case(_ROW, "1-D linear index scatter/gather"),
        Case(_PARTS, "N-D tile"),
        Case(_STORED, "N-D tile"),
        Case(
            vary(_STORED, ("ct.store(stat, index=(row, piece), tile=top + ct.log(ct.sum(e, axis=1, keepdims=True)))",  # noqa: E501
                           "ct.scatter(stat, (row, piece), ct.log(ct.sum(e)))")),
            "N-D index",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(vary(_TOKENS, ("m * H + head)\n    p", "m)\n    p")), why="one number per row"),
        NearMiss(
            vary(_TOKENS, ("s - by[:, None]", "s + by[:, None]")),
            why="what is added is a bias, no statistic",
        ),
        NearMiss(vary(_PARTS, ("stat, index=(row, head, 0)", "stat, index=(row, 0, 0)")),
                 why="one position"),
        NearMiss(vary(_STORED, ("stat, index=(row, piece)", "stat, index=(row, 0)")),
                 why="one position"),
        NearMiss(
            vary(
                _TOKENS,
                ("p = tl.exp(s - by[:, None])", "p = tl.exp(s - tl.max(s, 1)[:, None])"),
                ("out + at, tl.dot(p, tl.load(k + at))",
                 "out + at, tl.dot(p, tl.load(k + at)) + tl.exp(by)[:, None]"),
            ),
            why="a score of its own beside those of the product",
        ),
        NearMiss(
            vary(_ROW, ("load(stat + row", "load(x + row")),
            why="one number of the row itself",
        ),
        NearMiss(BACKWARD_KEYS, why="told as a flattened buffer"),
        NearMiss(ATTENTION, why="no statistic leaves or enters"),
        NearMiss(SOFTMAX, why="no statistic leaves or enters"),
        NearMiss(PRODUCT, why="no exponential"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.exponentials or facts.of_threads:
            return
        widths = {a: width(facts, a.value) for a in facts.accesses}
        widest = max(widths.values(), default=0)
        wide = {a.array for a, own in widths.items() if own == widest}
        narrow = [a for a in widths if a.array not in wide and not a.is_atomic]
        if not narrow:
            return
        read = {a.node for value in _statistics(facts) for a in _scaled_loads(facts, value)}
        found = [a for a in narrow if a.node in read or (a.is_store and _made(facts, a))]
        values = {a: value for a in found if (value := _positions(facts, a)) is not None}
        if not values or max(widths[a] for a in standing(facts)) < widest:
            return
        others = (FlattenedSideBuffer(), SideStrides(), SideIndex())
        told = {lines for p in others for d in p.seen(facts) for lines in d.lines}
        for value in dict.fromkeys(values.values()):
            free = [a for a, own in values.items() if own == value and a.node.lines not in told]
            if free:
                made = [n for a in free for n in joined_at(facts, a)]
                yield self.decide(facts, value, [*free, *made])


def _statistics(facts: Facts) -> Iterator[str]:
    """What exponentials are taken of where there are no scores, what they are taken less than, and
    what a product is taken less than."""
    for taken in facts.exponentials:
        if taken.statistic is not None:
            yield taken.statistic
        if taken.score is not None and not facts.score_products:
            yield taken.score
    for node in facts.graph.of(OpKind.SUB):
        if facts.graph.kind_of(facts.graph.core(node.op.inputs[0])) in CONTRACTIONS:
            yield node.op.inputs[1]


def _scaled_loads(facts: Facts, value: str) -> Iterator[Access]:
    """Loads that a value is, perhaps times a number."""
    for node in facts.graph.upstream(value, lambda n: n.op.kind not in _SCALED):
        access = facts.access(node)
        if access is not None and not access.is_store:
            yield access


def _made(facts: Facts, store: Access) -> bool:
    """Whether what is stored was made of a sum or a maximum of exponentials and is no output: a
    wider one is stored, or a logarithm was taken."""
    if all(width(facts, a.value) <= width(facts, store.value) for a in facts.stores):
        if not facts.graph.roots(store.value, OpKind.LOG, OpKind.LOG2):
            return False
    summed = [r.op.inputs[0] for r in facts.reductions if facts.graph.rests_on(store.value, r)]
    return any(facts.graph.rests_on(v, e.node) for v in summed for e in facts.exponentials)


def _positions(facts: Facts, access: Access) -> str | None:
    """How a place of two positions or more is told; None for fewer."""
    if access.mode in (Mode.TILE, Mode.DESCRIPTOR, Mode.ELEMENT) and len(access.index) > 1:
        moving = sum(any(index.has(kind) for kind in _MOVING) for index in access.index)
        return None if moving < 2 else "N-D index" if access.mode is Mode.ELEMENT else "N-D tile"
    if access.mode in (Mode.POINTER, Mode.ELEMENT) and len(access.index) == 1:
        if len(access.strides - facts.tile_extents) > 1 and access.mode is Mode.POINTER:
            return "strided"
        if any(apart(index) for index in nested(access.index[0])):
            return "1-D linear index scatter/gather"
    return None
