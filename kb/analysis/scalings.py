"""Products of tiles with numbers that all of a tile, or all of a row, shares."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.symbolic import AtomKind
from kb.ops import CONTRACTIONS, READS, REDUCTIONS, OpKind

ELEMENTWISE = VIEWS | CASTS | TURNS | {
    OpKind.MUL, OpKind.DIV, OpKind.ADD, OpKind.SUB, OpKind.SELECT, OpKind.IF, OpKind.FMA,
}  # fmt: skip


def scalar(facts: Facts, value: str) -> bool:
    """True for a runtime or compile-time number that no tile was loaded or reduced for."""
    return not facts.graph.roots(value, *READS, *CONTRACTIONS, *REDUCTIONS, OpKind.ARANGE)


def given_to_all(facts: Facts, node: Node) -> bool:
    """A product of a tile that a matrix product gives and a loaded number that all of it shares."""
    for tile, rate in (node.op.inputs[:2], node.op.inputs[1::-1]):
        loaded = facts.access(held) if (held := produced(facts, rate)) is not None else None
        number = loaded is not None and not loaded.is_store and not facts.types.shape(rate)
        if number and facts.graph.roots(tile, *CONTRACTIONS):
            return True
        if not facts.contractions and _of_the_row(facts, rate) and facts.feeding(tile):
            return True
    return False


def _of_the_row(facts: Facts, rate: str) -> bool:
    """A number that is made of single ones loaded for the whole row, and of nothing else loaded."""
    loads = facts.feeding(rate)
    whole = all(not i.has(AtomKind.LANE) for a in loads for i in a.index)
    wide = any(facts.types.shape(a.value) for a in loads)
    made = facts.graph.roots(rate, *REDUCTIONS, OpKind.ARANGE)
    return bool(loads) and whole and not wide and not made and not facts.types.shape(rate)


def produced(facts: Facts, value: str) -> Node | None:
    return facts.graph.producer(facts.graph.core(value))


def scaling(facts: Facts, node: Node) -> str | None:
    """The scalar side of a product whose other side is a tile."""
    left, right = node.op.inputs[:2]
    for this, other in ((left, right), (right, left)):
        if scalar(facts, this) and not scalar(facts, other):
            return this
    return None


def scales(facts: Facts, value: str) -> list[Node]:
    """Products with a scalar on the way from a matrix product or a load to `value`."""
    stop = facts.graph.upstream(value, lambda n: n.op.kind not in ELEMENTWISE)
    return [
        n
        for n in stop
        if (n.op.kind == OpKind.MUL and (scaling(facts, n) is not None or given_to_all(facts, n)))
        or (n.op.kind == OpKind.DIV and scaling(facts, n) == n.op.inputs[1])
    ]
