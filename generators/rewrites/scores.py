"""Scores of a softmax as rewrites see them: their row maxima, and the scalars that multiply them
on the way."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.ops import CONTRACTIONS, READS, REDUCTIONS, OpKind

ELEMENTWISE = VIEWS | CASTS | {
    OpKind.MUL, OpKind.ADD, OpKind.SUB, OpKind.SELECT, OpKind.IF, OpKind.FMA,
}  # fmt: skip


def scalar(facts: Facts, value: str) -> bool:
    """True for a number that no tile was loaded, multiplied or reduced for."""
    return not facts.graph.roots(value, *READS, *CONTRACTIONS, *REDUCTIONS, OpKind.ARANGE)


def scaling(facts: Facts, node: Node) -> tuple[str, str] | None:
    """Of a product of a tile and a scalar: the tile and the scalar."""
    if node.op.kind != OpKind.MUL:
        return None
    left, right = node.op.inputs[:2]
    for tile, factor in ((left, right), (right, left)):
        if scalar(facts, factor) and not scalar(facts, tile):
            return tile, factor
    return None


def scales_before(facts: Facts, value: str) -> list[Node]:
    """Products with a scalar on the elementwise way from a matrix product or a load to `value`."""
    above = facts.graph.upstream(value, lambda n: n.op.kind not in ELEMENTWISE)
    return [node for node in above if scaling(facts, node) is not None]


def score_maxima(facts: Facts) -> list[Node]:
    """Row maxima of scores."""
    return [
        node
        for node in facts.graph.of(OpKind.REDUCE_MAX)
        if any(facts.graph.rests_on(node.result, product) for product in facts.score_products)
    ]


def outer_scale(facts: Facts, maximum: Node) -> Node | None:
    """The product of the row maximum itself with a scalar."""
    for node in facts.graph.downstream(maximum.result):
        if node.op.kind != OpKind.MUL:
            continue
        for this, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            if facts.graph.core(this) == maximum.result and scalar(facts, other):
                return node
    return None
