"""Sums over a row: those that lanes take together, and those of a thread that owns the row."""

from __future__ import annotations

from functools import lru_cache

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Role, grower
from kb.ops import OpKind

_ADDING = (OpKind.ADD, OpKind.FMA)
_ATOMIC_SUMS = (OpKind.ATOMIC_ADD, OpKind.VIEW_ATOMIC_ADD, OpKind.DESCRIPTOR_ATOMIC_ADD)


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


def added_wide(facts: Facts) -> list[Node]:
    """Casts of loaded numbers to 32-bit floats that atomics add up, with the atomics."""
    found: list[Node] = []
    for store in facts.stores:
        ends = facts.graph.ends(store.value, VIEWS) if store.node.op.kind in _ATOMIC_SUMS else []
        wide = [n for n in ends if n.op.kind in CASTS and facts.types.dtype(n.result) == "f32"]
        wide = [n for n in wide if facts.feeding(n.result)]
        found += [*wide, store.node] if wide else []
    return found
