"""Numbers that block ids alone say, and where the part of a block begins."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import sides
from kb.analysis.symbolic import AtomKind, Expr
from kb.ops import OpKind


def of_blocks(number: Expr) -> bool:
    """True for what block ids, and nothing that a lane holds or memory gives, say."""
    return number.has(AtomKind.BLOCK) and not number.has(AtomKind.LANE, AtomKind.LOADED)


def block_starts(facts: Facts) -> list[Node]:
    """Of threads: a block's number times so many, where its part begins."""
    products = facts.graph.of(OpKind.MUL) if facts.of_threads else []
    return [
        n
        for n in products
        if any(of_blocks(number) for number in sides(facts, n))
        and not any(number.has(AtomKind.LANE, AtomKind.LOADED) for number in sides(facts, n))
    ]
