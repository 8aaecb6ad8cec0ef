"""Tiles of which every round of a loop replaces one row, or that it multiplies."""

from __future__ import annotations

from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.idioms import comparisons
from kb.analysis.loops import Carried, Loop, Role
from kb.ops import OpKind


def row_replaced(facts: Facts, state: Carried) -> bool:
    """A tile of which every round selects one row, that it made of the others, and keeps them."""
    made = facts.graph.producer(facts.graph.core(state.next))
    if made is None or made.op.kind != OpKind.SELECT:
        return False
    kind = made.op.results[0].type
    if facts.of_threads and (kind is None or not kind.shape):
        return False  # One number of a thread, as where the sums before it are found.
    new, kept = (made.op.operand(side) or "" for side in ("x", "y"))
    return (
        facts.graph.core(kept) == state.argument
        and leads(facts.graph, new, state.argument)
        and any(c.op.kind == OpKind.EQ for c in comparisons(facts, made.op.operand("condition")))
    )


def multiplied(facts: Facts, loop: Loop) -> list[Carried]:
    """Tiles of which every round makes the next one by a product with the one before."""
    if facts.of_threads:
        return []
    products = [p for p in facts.contractions if p.inside(loop.node)]
    return [
        c
        for c in (loop.of(Role.OTHER) if products else ())
        if any(
            c.argument == facts.graph.core(p.op.operand(side)) and facts.graph.rests_on(c.next, p)
            for p in products
            for side in ("lhs", "rhs")
        )
    ]
