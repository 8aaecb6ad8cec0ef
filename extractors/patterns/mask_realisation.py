"""How a mask acts on scores or probabilities."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    BACKWARD_KEYS,
    POINTER,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, SOFTMAX
from extractors.patterns.cases_rows_pointer import LAYER_NORM, SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from extractors.patterns.marked_items import MARKED
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import Applied, Mask, is_infinite, masks
from kb.analysis.marks import marks
from kb.dtypes import is_float
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, REDUCTIONS, OpKind

_LOWER = vary(
    PRODUCT_POINTER,
    ("acc.to(", "tl.where(m[:, None] >= n[None, :], acc, 0.0).to("),
)
_LOADED = vary(PRODUCT_POINTER, ("tl.dot(x,", "tl.dot(tl.where(m[:, None] >= k[None, :], x, 0.0),"))

_STORED = vary(_LOWER, ("acc, 0.0)", 'acc, float("-inf"))'))
_STEPS = vary(
    PRODUCT_POINTER, ("acc += tl.dot(x, y)", "acc += tl.where(m[:, None] >= t * TK, tl.dot(x, y), 0.0)")  # noqa: E501
)  # fmt: skip
_IGNORED = (
    POINTER
    + """
@triton.jit
def loss(x, y, w, out, left_out, n, s, T: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    at = tl.arange(0, C)
    own = tl.load(y + row, mask=row < n, other=0)
    v = tl.load(x + row[:, None] * s + at[None, :], mask=row[:, None] < n, other=-float("inf"))
    top = tl.max(v, axis=1)
    lse = top + tl.log(tl.sum(tl.exp(v - top[:, None]), axis=1))
    counts = (own != left_out) & (row < n)
    tl.store(out + row, tl.where(counts, lse, 0.0), mask=row < n)
"""
)
_WEIGHED = vary(
    _IGNORED,
    (
        "tl.where(counts, lse, 0.0)",
        "lse * tl.load(w + own, mask=counts, other=0.0)",
    ),
)
_PICKED = (
    POINTER
    + """
@triton.jit
def loss(x, label, out, n, width, left_out, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    own = tl.load(label + row, mask=row < n, other=0)
    counts = (own != left_out) & (row < n)
    v = tl.load(x + row * width + own, mask=counts, other=0.0)
    tl.store(out + row, v * -1.0, mask=row < n)
"""
)
_MARKED = "marked items zeroed at the end"
_UNREAD = "marked items read as zero"
_POWERS = (OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2)
_COMPUTED = REDUCTIONS | frozenset(_POWERS)


class MaskRealisation(Pattern):
    """A select under a positional mask, added to scores, put in their place, or zeroing
    probabilities; or a result that a loaded number, where it is the one that marks items to be
    left out, takes away, or whose elements are not read."""

    name = "mask-realisation"
    axis = "mask_application"
    source = "Dao et al., FlashAttention (2022), algorithm 2: masked scores are minus infinity"
    matches = (
        Case(ATTENTION, "additive -inf"),
        Case(_LOADED, "zero the product"),
        Case(_STEPS, "zero the product"),
        Case(_STORED, "select -inf before max"),
        Case(ATTENTION_POINTER, "select -inf before max"),
        Case(
            vary(
                ATTENTION_POINTER,
                ('s = tl.where(keep, s, float("-inf"))', "s = tl.where(keep, s, -1.0e6)"),
            ),
            "select large finite",
        ),
        Case(
            vary(
                ATTENTION_POINTER,
                ('s = tl.where(keep, s, float("-inf"))', "s = tl.where(keep, s, LEAST)"),
                ("TRI: tl.constexpr", "TRI: tl.constexpr, LEAST: tl.constexpr"),
            ),
            "select large finite",
        ),
        Case(BACKWARD_KEYS, "zero P after exp"),
        Case(_LOWER, "zero the product"),
        Case(SOFTMAX_POINTER, "padding -inf before max"),
        Case(SOFTMAX, "padding -inf before max"),
        Case(FLASH_THREADS, "select -inf before max"),
        Case(_IGNORED, _MARKED),
        Case(_WEIGHED, _MARKED),
        Case(_PICKED, _UNREAD),
    )
    near_misses = (
        NearMiss(vary(_PICKED, ("own != left_out", "own >= 0")), why="no number marks items"),
        NearMiss(
            vary(_IGNORED, ("own != left_out", "own != row")),
            why="no number is given that marks items",
            value=_MARKED,
        ),
        NearMiss(
            vary(
                _IGNORED,
                ("tl.where(counts, lse, 0.0)", "lse"),
                ("mask=row < n)\n", "mask=counts)\n"),
            ),
            why="what is marked is not stored",
            value=_MARKED,
        ),
        NearMiss(
            vary(_LOWER, ("m[:, None] >= n[None, :]", "m[:, None] < M")),
            why="rows past the end are zeroed, which is the padding's business",
        ),
        NearMiss(
            vary(_STEPS, ("m[:, None] >= t * TK", "m[:, None] < M")),
            why="rows past the end are zeroed, which is the padding's business",
        ),
        NearMiss(vary(_STORED, ("acc, float", "m[:, None] * 1.0, float")), why="no scores"),
        NearMiss(LAYER_NORM_POINTER, why="centred values are zeroed, no exponential is near"),
        NearMiss(
            vary(SOFTMAX_POINTER, ('other=-float("inf")', "other=0.0")),
            why="zeros are filled in, which are no masked scores",
        ),
        NearMiss(
            vary(
                SOFTMAX_POINTER,
                ("e = tl.exp(v - tl.max(v, axis=0))", "e = tl.where(inside, tl.exp(v), 0.0)"),
            ),
            why="lanes past the end are zeroed, which is the padding's business",
            value="zero P after exp",
        ),
        NearMiss(
            vary(
                SOFTMAX_POINTER,
                ("y = e / d", "y = tl.sum(tl.where(at == row, e / d, 0.0), axis=0)"),
            ),
            why="one element is picked out of the tile",
            value="zero P after exp",
        ),
        NearMiss(
            vary(
                MARKED,
                ("other=0.0", 'other=-float("inf")'),
                ("tl.sum(v, axis=0)", "tl.sum(tl.exp(v - tl.max(v, axis=0)), axis=0)"),
            ),
            why="marked items are skipped by a branch, which is told",
        ),
        NearMiss(LAYER_NORM, why="centred values are zeroed, no exponential is near"),
        NearMiss(LAYER_NORM_THREADS, why="centred values are zeroed, no exponential is near"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Mask]] = {}
        seen = masks(facts)
        told = seen or any(not mark.negative for mark in marks(facts))
        padded = [] if told else [a for a in facts.loads if self._padded(facts, a)]
        marked = _marked(facts)
        if marked:
            yield self.decide(facts, _MARKED, marked)
        elif unread := _unread(facts):
            yield self.decide(facts, _UNREAD, unread)
        elif padded:
            yield self.decide(facts, "padding -inf before max", padded)
        for mask in seen:
            found.setdefault(_value(facts, mask), []).append(mask)
        for value, group in found.items():
            where = [node for m in group for node in (m.node, m.combined)]
            yield self.decide(facts, value, where)

    def _padded(self, facts: Facts, access: Access) -> bool:
        """A load that fills what lies outside with minus infinity, on its way to an exponential
        and the maximum below it."""
        if access.padding != "neg_inf" or facts.contractions:
            return False
        maxima = facts.graph.of(OpKind.REDUCE_MAX, OpKind.MAXIMUM)
        return any(facts.graph.rests_on(m.result, access.node) for m in maxima) and any(
            facts.graph.rests_on(e.score, access.node) for e in facts.exponentials
        )


def _marked(facts: Facts) -> list[Node]:
    """Comparisons of loaded whole numbers with one that is handed in, and the choices, or the
    products, of results that rest on them on their way to a store."""
    if facts.contractions or facts.of_threads:
        return []
    tests = [n for n in facts.graph.of(OpKind.EQ, OpKind.NE) if _with_mark(facts, n)]
    found: list[Node] = []
    for node in facts.graph.of(OpKind.SELECT, OpKind.MUL) if tests else ():
        on = [t for t in tests if any(_takes(facts, v, t) for v in node.op.inputs)]
        computed = [v for v in node.op.inputs if facts.graph.roots(v, *_POWERS)]
        if on and computed and facts.stored_in(node.result):
            found += [*on, node]
    return list(dict.fromkeys(found))


def _unread(facts: Facts) -> list[Node]:
    """Comparisons of loaded whole numbers with one that is handed in, and loads that read zero
    where they fail, on the way to what is stored."""
    if facts.contractions or facts.of_threads:
        return []
    tests = [n for n in facts.graph.of(OpKind.EQ, OpKind.NE) if _with_mark(facts, n)]
    found: list[Node] = []
    for access in facts.loads if tests else ():
        on = [t for t in tests if access.mask is not None and _takes(facts, access.mask, t)]
        if on and access.padding == "zero" and facts.stored_in(access.value):
            found += [*on, access.node]
    return list(dict.fromkeys(found))


def _with_mark(facts: Facts, test: Node) -> bool:
    for value, mark in (test.op.inputs[:2], test.op.inputs[1::-1]):
        held = facts.held_loads(value)
        whole = not is_float(facts.types.dtype(value))
        if held and whole and facts.graph.core(mark) in facts.graph.function.parameter_names:
            return True
    return False


def _takes(facts: Facts, value: str, test: Node) -> bool:
    """A value that is the outcome of a test, or what was loaded where it holds, with nothing
    computed between."""
    way = facts.graph.upstream(value, lambda n: n is test or n.op.kind in _COMPUTED)
    return test in way


def _value(facts: Facts, mask: Mask) -> str:
    if mask.applied is Applied.ZEROED:
        stops = CONTRACTIONS | READS
        above = facts.graph.upstream(mask.node.result, lambda n: n.op.kind in stops)
        powers = any(n.op.kind in (OpKind.EXP, OpKind.EXP2) for n in above)
        return "zero P after exp" if powers else "zero the product"
    if mask.applied is Applied.ADDED:
        return "additive -inf" if is_infinite(mask.fill) else "additive large finite"
    return "select -inf before max" if is_infinite(mask.fill) else "select large finite"
