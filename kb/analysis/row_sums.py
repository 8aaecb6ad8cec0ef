"""Sums over a row: those that lanes take together, and those of a thread that owns the row."""

from __future__ import annotations

from functools import lru_cache

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Role, grower
from kb.ops import OpKind

_ADDING = (OpKind.ADD, OpKind.FMA)


def row_sums(facts: Facts, value: str | None) -> list[Node]:
    """What adds rows up on the way to a value: reductions; where a kernel has none, the additions
    of loops that one thread goes through."""
    if facts.reductions or not facts.of_threads:
        return facts.graph.roots(value, OpKind.REDUCE_SUM)
    return [n for n in _alone(facts) if facts.graph.rests_on(value, n)]


def totals(facts: Facts) -> list[Node]:
    """All of what adds rows up."""
    if facts.reductions or not facts.of_threads:
        return facts.graph.of(OpKind.REDUCE_SUM)
    return list(_alone(facts))


@lru_cache(maxsize=2)
def _alone(facts: Facts) -> tuple[Node, ...]:
    carried = [c for loop in facts.rolled_loops for c in loop.of(Role.SUM)]
    made = [grower(facts.graph, c.next) for c in carried if facts.feeding(c.next)]
    return tuple(n for n in made if n is not None and n.op.kind in _ADDING)
