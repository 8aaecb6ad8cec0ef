"""Products of a matrix that threads multiply and add up number by number."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Role, updates
from kb.analysis.symbolic import Atom, AtomKind
from kb.ops import OpKind

_MOVING = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.LANE)
_SUMMED = 16
"""Sums of sums that are looked through for a product."""
_PARTS = (AtomKind.MOD, AtomKind.FLOOR_DIV)


def thread_products(facts: Facts) -> list[tuple[Node, tuple[list[Access], list[Access]]]]:
    """What adds a product up in a loop, with the loads of either side: numbers of two arrays, of
    which one is used again where the other moves on, at most one of them behind a loaded pointer;
    what is stored of the sum meets none of both arrays again, as the gradient of a norm does."""
    if not facts.of_threads or facts.contractions:
        return []
    found: dict[Node, tuple[list[Access], list[Access]]] = {}
    for loop in facts.loops:
        for carried in loop.of(Role.SUM, Role.RUNNING_SUM):
            for step in updates(facts.graph, carried.argument, carried.next):
                loads = [_numbers(facts, v) for v in _factors(facts, step, carried.argument)]
                if len(loads) == 2 and _apart(loads[0], loads[1]):
                    found.setdefault(step, (loads[0], loads[1]))
    taken = {a for one, other in found.values() for a in (*one, *other)}
    return [(step, both) for step, both in found.items() if _final(facts, step, both, taken)]


def _numbers(facts: Facts, value: str) -> list[Access]:
    """The loads whose numbers a factor is made of, without those that say where they lie."""
    above = facts.graph.upstream(value, lambda n: facts.access(n) is not None)
    return [a for n in above if (a := facts.access(n)) is not None and not a.is_store]


def _factors(facts: Facts, step: Node, argument: str) -> tuple[str, ...]:
    """The two sides of a product that a step adds to what it is given; of a sum of products, those
    of one of them."""
    if step.op.kind == OpKind.FMA:
        return step.op.inputs[:2]
    if step.op.kind != OpKind.ADD:
        return ()
    sides = step.op.inputs[:2]
    for value, other in (sides, sides[::-1]):
        if value != argument and (product := _product(facts, value, OpKind.MUL)):
            return product
        if facts.graph.core(other) == argument and (
            product := _product(facts, value, OpKind.MUL, OpKind.FMA, OpKind.ADD)
        ):
            return product
    return ()


def _product(facts: Facts, value: str, *kinds: OpKind) -> tuple[str, ...]:
    """The two sides of a product, or of the last one of a sum of products."""
    for _ in range(_SUMMED):
        made = facts.graph.producer(facts.graph.core(value))
        if made is None or made.op.kind not in kinds:
            return ()
        if made.op.kind != OpKind.ADD:
            return made.op.inputs[:2]
        value = made.op.inputs[1]
    return ()


def _apart(one: list[Access], other: list[Access]) -> bool:
    """Two lists of loads at places that do not move together; of one array, neither does what the
    other does."""
    arrays = [{a.array for a in loads} for loads in (one, other)]
    if not all(arrays) or all(None in names for names in arrays):
        return False
    if arrays[0] & arrays[1]:
        first, second = (_moved_by(loads, (*_MOVING, *_PARTS)) for loads in (one, other))
        return bool(first - second and second - first)
    return bool(_moved_by(one, _MOVING) ^ _moved_by(other, _MOVING))


def _moved_by(loads: list[Access], kinds: tuple[AtomKind, ...]) -> set[Atom]:
    return {
        atom for a in loads for index in a.index for atom in index.atoms() if atom.kind in kinds
    }


def _final(
    facts: Facts, step: Node, both: tuple[list[Access], list[Access]], taken: set[Access]
) -> bool:
    """Whether nothing else of the arrays meets the sum on the way to where it is stored, than in
    other sums of products, as in a loop over what is left."""
    arrays = {a.array for loads in both for a in loads}
    stores = [a for a in facts.stores if facts.graph.rests_on(a.value, step)]
    again = [a for store in stores for a in _numbers(facts, store.value) if a not in taken]
    return not any(a.array in arrays for a in again)
