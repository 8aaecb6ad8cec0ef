"""Elements that a comparison chooses, and their positions stored beside them."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons
from kb.ops import COMPARISONS, READS, OpKind

_WHOLE = ("i", "u")


def chosen_positions(facts: Facts) -> list[tuple[Access, Node]]:
    """Stores of whole numbers of which a loop keeps one where a comparison says so that an element
    stored elsewhere is kept by, too; each with the choice."""
    if facts.of_threads or facts.contractions:
        return []
    kept = [(s, _choices(facts, s)) for s in facts.stores if not s.is_atomic]
    found = []
    for store, choices in kept:
        if not facts.types.dtype(store.value).startswith(_WHOLE):
            continue
        others = [n for s, held in kept if s.array != store.array for n in held]
        met = {t for n in others if not _counted(facts, n) for t in _tests(facts, n)}
        found += [(store, n) for n in choices if met & {*_tests(facts, n)} and _counted(facts, n)]
    return found


def _choices(facts: Facts, store: Access) -> list[Node]:
    return [n for n in facts.graph.roots(store.value, OpKind.SELECT) if n.loops]


def _tests(facts: Facts, choice: Node) -> list[tuple[str, ...]]:
    """What is compared, with which operation, where elements take part."""
    tests = facts.graph.roots(choice.op.inputs[0], *COMPARISONS)
    read = [t for t in tests if facts.graph.roots(t.result, *READS)]
    return [(str(t.op.kind), *(facts.graph.core(v) or v for v in t.op.inputs)) for t in read]


def _counted(facts: Facts, choice: Node) -> bool:
    """A choice between numbers that no memory gives."""
    return not any(facts.graph.roots(v, *READS) for v in choice.op.inputs[1:2])


def picks_one(facts: Facts, total: Node) -> bool:
    """Whether a sum picks one of several: all but one are zero."""
    return picked_from(facts, total) is not None


def picked_from(facts: Facts, total: Node | None) -> str | None:
    """The tile of which a sum picks one element: all others are chosen to be zero, or multiplied by
    a comparison that they do not meet."""
    if total is None or total.op.kind != OpKind.REDUCE_SUM:
        return None
    made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
    if made is not None and made.op.kind == OpKind.SELECT:
        picked = any(_equal(c) for c in comparisons(facts, made.op.operand("condition")))
        return made.op.operand("x") if picked else None
    if made is not None and made.op.kind == OpKind.MUL:
        for own, other in (made.op.inputs[:2], made.op.inputs[1::-1]):
            if _equal(facts.graph.producer(facts.graph.core(other))):
                return own
    return None


def _equal(test: Node | None) -> bool:
    return test is not None and test.op.kind == OpKind.EQ
