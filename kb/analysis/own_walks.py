"""Loops in which the threads of a block go through all of what its results are made of."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.ops import OpKind

_COUNTS = frozenset({OpKind.FLOOR_DIV, OpKind.CEIL_DIV, OpKind.DIV})


def own_walks(facts: Facts, stores: Iterable[Access]) -> list[Node]:
    """Of threads: outermost loops that load, give something that is stored, and end where the place
    of the block does not say; each with the division that counts its rounds."""
    found: list[Node] = []
    chosen = list(stores)
    for loop in facts.rolled_loops if facts.of_threads else ():
        if loop.node.loops or loop.high is None or facts.values.expr(loop.high).has(AtomKind.BLOCK):
            continue
        read = any(a.node.inside(loop.node) for a in facts.loads)
        if read and any(facts.graph.rests_on(a.value, loop.node) for a in chosen):
            made = facts.graph.producer(facts.graph.core(loop.high))
            found += [loop.node, *([made] if made is not None and made.kind in _COUNTS else [])]
    return found
