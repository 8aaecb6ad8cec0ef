"""Several rows that one loop reduces by the same operations, each to a number of its own."""

from __future__ import annotations

from collections import Counter

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, VIEWS, Node
from kb.analysis.loops import Carried, Loop, Role
from kb.ops import READS

_GROWING = (Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM, Role.RUNNING_MINIMUM)


def reduced_alike(facts: Facts) -> list[Node | Access]:
    """Loads of such rows with what the loop carries of each on; empty where two rows share a
    load, or where a number is stored nowhere."""
    if facts.of_threads or facts.contractions:
        return []
    for loop in facts.rolled_loops:
        ways: dict[tuple[object, ...], list[tuple[frozenset[Access], Carried]]] = {}
        for carried in loop.of(*_GROWING):
            loads, steps = _way(facts, loop, carried)
            if loads and facts.stored_in(carried.result):
                ways.setdefault((carried.role, *steps), []).append((loads, carried))
        for found in ways.values():
            if len(found) < 2 or not _apart([loads for loads, _ in found]):
                continue
            made = [facts.graph.producer(facts.graph.core(c.next)) for _, c in found]
            taken = [a for some, _ in found for a in some]
            return [*taken, *(n for n in made if n is not None)]
    return []


def _way(
    facts: Facts, loop: Loop, carried: Carried
) -> tuple[frozenset[Access], tuple[tuple[str, int], ...]]:
    """What a round loads for what is carried, and how often each operation lies on the way."""
    above = facts.graph.upstream(carried.next, lambda n: n.op.kind in (*READS, *LOOPS))
    inside = [n for n in above if n.inside(loop.node)]
    loads = frozenset(a for n in inside if (a := facts.access(n)) is not None)
    steps = Counter(n.op.kind for n in inside if n.op.kind not in VIEWS)
    return loads, tuple(sorted(steps.items()))


def _apart(some: list[frozenset[Access]]) -> bool:
    """Whether no two loads are of one place."""
    places = [{(a.array, a.index) for a in loads} for loads in some]
    return sum(map(len, places)) == len(set().union(*places)) == sum(map(len, some))
