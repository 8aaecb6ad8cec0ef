"""Products of a matrix that threads multiply and add up number by number."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Role, updates
from kb.analysis.symbolic import Atom, AtomKind
from kb.ops import OpKind

_MOVING = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.LANE)
_PARTS = (AtomKind.MOD, AtomKind.FLOOR_DIV)


def thread_products(facts: Facts) -> list[tuple[Node, tuple[list[Access], list[Access]]]]:
    """What adds a product up in a loop, with the loads of either side: numbers of two arrays, of
    which one is used again where the other moves on; what is stored of the sum meets none of both
    arrays again, as the gradient of a norm does."""
    if not facts.of_threads or facts.contractions:
        return []
    found: list[tuple[Node, tuple[list[Access], list[Access]]]] = []
    for loop in facts.loops:
        for carried in loop.of(Role.SUM, Role.RUNNING_SUM):
            for step in updates(facts.graph, carried.argument, carried.next):
                sides = _factors(facts, step, carried.argument)
                loads = [facts.feeding(v) for v in sides]
                if len(loads) != 2 or any(step is seen for seen, _ in found):
                    continue
                if _apart(loads[0], loads[1]) and _final(facts, step, [*loads[0], *loads[1]]):
                    found.append((step, (loads[0], loads[1])))
    return found


def _factors(facts: Facts, step: Node, argument: str) -> tuple[str, ...]:
    """The two sides of a product that a step adds to what it is given."""
    if step.op.kind == OpKind.FMA:
        return step.op.inputs[:2]
    if step.op.kind != OpKind.ADD:
        return ()
    for value in step.op.inputs[:2]:
        made = facts.graph.producer(facts.graph.core(value))
        if made is not None and made.op.kind == OpKind.MUL and value != argument:
            return made.op.inputs[:2]
    return ()


def _apart(one: list[Access], other: list[Access]) -> bool:
    """Two lists of loads at places that do not move together; of one array, neither does what the
    other does."""
    arrays = [{a.array for a in loads} for loads in (one, other)]
    if not all(arrays) or any(None in names for names in arrays):
        return False
    if arrays[0] & arrays[1]:
        first, second = (_moved_by(loads, (*_MOVING, *_PARTS)) for loads in (one, other))
        return bool(first - second and second - first)
    return bool(_moved_by(one, _MOVING) ^ _moved_by(other, _MOVING))


def _moved_by(loads: list[Access], kinds: tuple[AtomKind, ...]) -> set[Atom]:
    return {
        atom for a in loads for index in a.index for atom in index.atoms() if atom.kind in kinds
    }


def _final(facts: Facts, step: Node, loads: list[Access]) -> bool:
    """Whether nothing else of the arrays meets the sum on the way to where it is stored."""
    arrays = {a.array for a in loads}
    stores = [a for a in facts.stores if facts.graph.rests_on(a.value, step)]
    again = [a for store in stores for a in facts.feeding(store.value) if a not in loads]
    return not any(a.array in arrays for a in again)
