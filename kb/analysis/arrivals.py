"""Blocks of a tile program that count themselves in memory, and what the count decides."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.ops import ATOMICS, COMPARISONS, WRITES, OpKind


def arrivals(facts: Facts) -> list[tuple[Node, Node]]:
    """Additions to a counter with the comparisons of what it held before, or holds then, with how
    many blocks there are, given to the kernel or asked; after it, what blocks stored is loaded."""
    written = {a.array for a in facts.stores}
    found = []
    for added in facts.graph.of(OpKind.ATOMIC_ADD) if not facts.of_threads else ():
        if facts.types.shape(added.result):
            continue
        for test in facts.graph.of(*COMPARISONS):
            for one, other in (test.op.inputs[:2], test.op.inputs[1::-1]):
                if _counter(facts, one, added) and _many(facts, other):
                    later = [a for a in facts.loads if a.node.index > test.index]
                    if any(a.array in written for a in later):
                        found.append((added, test))
    return found


def _counter(facts: Facts, value: str, added: Node) -> bool:
    """Whether a value is what a counter held, or what is loaded from it after the addition."""
    place = facts.access(added)
    held = [a for a in facts.held_loads(value) if a.node.index > added.index]
    again = place is not None and any(
        (a.array, a.index) == (place.array, place.index) for a in held
    )
    return facts.graph.core(value) == added.result or again


def _many(facts: Facts, value: str) -> bool:
    """A number that the kernel is given, or how many blocks there are, and not one of its own."""
    expr = facts.values.expr(value)
    kinds = {atom.kind for atom in expr.atoms()}
    return bool(kinds) and kinds <= {AtomKind.PARAMETER, AtomKind.BLOCKS}


def gathered(facts: Facts) -> list[Node]:
    """Loops that do nothing but ask a counter, which blocks add to, until it says so."""
    found = []
    for loop in facts.graph.of(OpKind.WHILE) if not facts.of_threads else ():
        inside = facts.graph.within(loop)
        asked = [n for n in inside if n.op.kind == OpKind.ATOMIC_ADD]
        others = [n for n in inside if n.op.kind in ATOMICS | WRITES and n not in asked]
        ends = [r.terminator for r in loop.op.regions[:1]]
        given = [v for end in ends if end is not None for v in end.inputs]
        if len(asked) == 1 and not others and any(facts.graph.rests_on(v, asked[0]) for v in given):
            found += [loop, *asked]
    return found
