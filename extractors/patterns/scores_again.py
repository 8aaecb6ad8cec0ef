"""Scores that a backward pass computes again from the operands of the forward pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, permutations

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.transposed_score import LINEAR as KEYS_FIRST
from extractors.patterns.transposed_score import keys_first
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import recomputed
from kb.analysis.operand_arrays import arrays_of, in_one_round
from kb.analysis.scalings import ELEMENTWISE, elementwise
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_SUMS = ELEMENTWISE | {OpKind.FOR}

_FEW = 3
"""Products that no gradient of scores is among."""
MAX_PRODUCTS = 40
"""Products of one kernel that are compared with each other."""

_LINEAR = (
    POINTER
    + """
@triton.jit
def back(q, k, v, g, dq, dk, dv, D: tl.constexpr, T: tl.constexpr):
    m = tl.program_id(0) * T + tl.arange(0, T)
    at = m[:, None] * D + tl.arange(0, D)[None, :]
    a, b = tl.load(q + at), tl.load(k + at)
    c, d = tl.load(v + at), tl.load(g + at)
    causal = m[:, None] >= m[None, :]
    s = tl.where(causal, tl.dot(a, tl.trans(b)), 0.0)
    ds = tl.where(causal, tl.dot(d, tl.trans(c)), 0.0)
    tl.store(dv + at, tl.dot(tl.trans(s), d))
    tl.store(dq + at, tl.dot(ds, b))
    tl.store(dk + at, tl.dot(tl.trans(ds), a))
"""
)
_LINEAR_TILE = (
    TILE
    + """
@ct.kernel
def back(q, k, v, g, dq, dv, D: Int, T: Int):
    m = ct.bid(0)
    zero = ct.full((T, T), 0.0, dtype=ct.float32)
    none = ct.full((T, D), 0.0, dtype=ct.float32)
    a = ct.load(q, index=(m, 0), shape=(T, D))
    b = ct.load(k, index=(m, 0), shape=(T, D))
    c = ct.load(v, index=(m, 0), shape=(T, D))
    d = ct.load(g, index=(m, 0), shape=(T, D))
    s = ct.mma(a, ct.transpose(b), zero)
    ds = ct.mma(d, ct.transpose(c), zero)
    ct.store(dv, index=(m, 0), tile=ct.mma(ct.transpose(s), d, none))
    ct.store(dq, index=(m, 0), tile=ct.mma(ds, b, none))
"""
)
_DECAYED = vary(
    _LINEAR,
    ("causal = m[:, None] >= m[None, :]", "decay = tl.exp2(m[:, None] - m[None, :])"),
    ("tl.where(causal, tl.dot(a, tl.trans(b)), 0.0)", "tl.dot(b, tl.trans(a)) * decay"),
    ("tl.where(causal, tl.dot(d, tl.trans(c)), 0.0)", "tl.dot(c, tl.trans(d)) * decay"),
    ("tl.dot(tl.trans(s), d)", "tl.dot(s, d) + tl.dot(b, tl.load(dq + at))"),
    ("tl.store(dq + at, tl.dot(ds, b))", "tl.store(dq + m, tl.sum(ds * s, axis=1))"),
    ("    tl.store(dk + at, tl.dot(tl.trans(ds), a))\n", ""),
)


class ScoresAgain(Pattern):
    """Two products of four arrays: the first meets an operand of the second in a third product, and
    the second meets operands of the first in others; or both are multiplied by one tile, and the
    first meets an operand of the second. The first are the scores, the second their gradient; other
    products of the same arrays that a product takes on are computed again like them. Or scores have
    keys for rows, of which those up to a query are kept, and a product goes over the queries."""

    name = "scores-computed-again-for-their-gradient"
    axis = "recompute"
    source = "Katharopoulos et al., Transformers are RNNs (2020), section 3.3, gradients"
    matches = (
        Case(_LINEAR, "scores computed again"),
        Case(_LINEAR_TILE, "scores computed again"),
        Case(_DECAYED, "scores computed again"),
        Case(KEYS_FIRST, "scores computed again"),
    )
    near_misses = (
        NearMiss(
            vary(_DECAYED, ("tl.trans(d)) * decay", "tl.trans(d))")),
            why="one product decays: which are scores is not told",
        ),
        NearMiss(
            vary(_LINEAR, ("tl.dot(tl.trans(s), d)", "d")),
            why="nothing is made of the first product",
        ),
        NearMiss(
            vary(_LINEAR, ("tl.dot(tl.trans(s), d)", "tl.dot(tl.trans(s), a)")),
            why="the first product meets an operand of its own",
        ),
        NearMiss(
            vary(_LINEAR_TILE, ("ct.mma(ds, b, none)", "ct.mma(ds, c, none)")),
            why="the second product meets an operand of its own",
        ),
        NearMiss(
            vary(KEYS_FIRST, ("tl.load(q + rows", "tl.load(k + rows")), why="keys with themselves"
        ),
        NearMiss(
            vary(KEYS_FIRST, ("[:, None] <= rows", "[:, None] >= rows")), why="rows are queries"
        ),
        NearMiss(BACKWARD_KEYS, why="rebuilt from a statistic that was saved"),
        NearMiss(ATTENTION, why="forward"),
        NearMiss(FLASH_POINTER, why="forward"),
        NearMiss(PRODUCT, why="one product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        products = facts.contractions
        if not 1 < len(products) <= MAX_PRODUCTS or recomputed(facts):
            return
        given = {p: _given(facts, p) for p in products}
        plain = [p for p in products if len(given[p]) == 2]
        made = [pair for p in products for pair in _made(facts, p)]
        found: dict[Node, None] = {}
        for first, second in combinations(plain, 2) if len(products) > _FEW else ():
            if given[first] & given[second] or first.loop is not second.loop:
                continue
            met = [p for p, source, other in made if source is first and other & given[second]]
            back = [p for p, source, other in made if source is second and other & given[first]]
            if met and back:
                scores = {len(met): (first, *met), len(back): (second, *back)}
                both = (first, second) if len(met) == len(back) else scores[min(scores)]
                found |= dict.fromkeys(both)
        if len(products) > _FEW:
            found = found or dict.fromkeys(_decayed_alike(facts, given))
        found = found or dict.fromkeys(_keys_first(facts, given))
        alike = {given[p] for p in found if p in plain}
        met_again = {source for _, source, _ in made}
        found |= dict.fromkeys(p for p in plain if given[p] in alike and p in met_again)
        if found:
            yield self.decide(facts, "scores computed again", found)


def _decayed_alike(facts: Facts, given: dict[Node, frozenset[str | None]]) -> Iterator[Node]:
    """Two products of two loaded tiles each, both multiplied by one tile that no product is in:
    what is made of the first meets an operand of the second."""
    decayed: dict[str | None, list[tuple[Node, Node]]] = {}
    for node in facts.graph.of(OpKind.MUL):
        for side, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            if len(facts.types.shape(other)) < 2 or facts.graph.roots(other, *CONTRACTIONS):
                continue
            above = facts.graph.upstream(side, lambda n: n.op.kind not in _SUMS)
            pairs = [(n, node) for n in above if len(given.get(n, ())) == 2]
            decayed.setdefault(facts.graph.core(other), []).extend(pairs)
    for pairs in decayed.values():
        for (first, made), (second, _) in permutations(pairs, 2):
            met = [p for p in given if _meets(facts, p, made, given[second])]
            if met and not given[first] & given[second]:
                yield from (first, made, *met)


def _keys_first(facts: Facts, given: dict[Node, frozenset[str | None]]) -> Iterator[Node]:
    """Products of two arrays whose rows come before their columns, where the mask keeps them, each
    with a product that goes over the columns: the queries, in the gradient of what keys hold."""
    for score, product in keys_first(facts):
        if len(given.get(score, ())) == 2:
            yield from (score, product)


def _meets(facts: Facts, product: Node, made: Node, arrays: frozenset[str | None]) -> bool:
    """Whether one side of a product is what was made, and the other one of the arrays."""
    sides = [product.op.operand(role) or "" for role in ("lhs", "rhs")]
    return any(
        made in elementwise(facts, one) and arrays_of(facts, other) & arrays
        for one, other in (sides, sides[::-1])
    )


def _given(facts: Facts, product: Node) -> frozenset[str | None]:
    """Arrays of a product of two loaded tiles; empty for any other."""
    sides = [product.op.operand(role) for role in ("lhs", "rhs")]
    arrays = [arrays_of(facts, side) for side in sides]
    return frozenset().union(*arrays) if all(len(one) == 1 for one in arrays) else frozenset()


def _made(facts: Facts, product: Node) -> Iterator[tuple[Node, Node, set[str | None]]]:
    """A product, the product of the same round that one of its sides is the nearest to, and the
    other side's arrays."""
    sides = [product.op.operand(role) for role in ("lhs", "rhs")]
    for one, other in (sides, sides[::-1]):
        arrays = arrays_of(facts, other)
        for node in in_one_round(facts, one) if one is not None and arrays else ():
            if node.op.kind in CONTRACTIONS:
                yield product, node, arrays
