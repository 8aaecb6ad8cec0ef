"""The problem that a work item belongs to, found in the kernel: a loop over problems adds up how
many items they have, and a comparison of the item's number with that sum chooses one."""

from __future__ import annotations

from dataclasses import dataclass

from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.ops import OpKind

_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)


@dataclass(frozen=True, slots=True)
class TileSearch:
    """The loop over problems, its comparisons with the item's number, and the sums of items."""

    loop: Loop
    tests: tuple[Node, ...]
    sums: tuple[Node, ...]


def tile_searches(facts: Facts) -> list[TileSearch]:
    """Every loop that finds the problem of a work item by the running number of items."""
    found = []
    for loop in facts.loops:
        tests = [
            n
            for n in facts.graph.of(*_ORDERED)
            if n.inside(loop.node) and not facts.types.shape(n.result)
        ]
        for end in loop.carried if tests else ():
            if facts.values.expr(end.init).constant is None:
                continue
            grown = [n for n in facts.graph.ends(end.next, COPIES) if n.op.kind == OpKind.ADD]
            own = [n for n in tests if _against(facts, loop, n, end.argument)]
            if grown and any(_chooses(facts, loop, n) for n in own):
                found.append(TileSearch(loop, tuple(own), tuple(grown)))
                break
    return found


def _against(facts: Facts, loop: Loop, test: Node, argument: str) -> bool:
    """Whether a sum carried by a loop is compared with an item's number from outside it."""
    left, right = test.op.inputs[:2]
    return any(
        leads(facts.graph, one, argument)
        and facts.values.expr(other).has(AtomKind.BLOCK)
        and not any(leads(facts.graph, other, c.argument) for c in loop.carried)
        for one, other in ((left, right), (right, left))
    )


def _chooses(facts: Facts, loop: Loop, test: Node) -> bool:
    """Whether a comparison decides that a carried number becomes the number of the round."""
    step = loop.induction
    branches = [
        b
        for b in facts.graph.of(OpKind.IF, OpKind.SELECT)
        if b.inside(loop.node) and facts.graph.rests_on(b.op.inputs[0], test)
    ]
    return step is not None and any(
        facts.graph.core(c.next) != step
        and facts.graph.rests_on(c.next, branch)
        and step in _sides(facts, c.next)
        for c in loop.carried
        for branch in branches
    )


def _sides(facts: Facts, value: str) -> set[str]:
    """What branches may hand on as a value."""
    kinds = {OpKind.IF, OpKind.SELECT, *COPIES}
    seen, pending = {value}, [value]
    for current in pending:
        made = facts.graph.producer(current)
        if made is None or made.op.kind not in kinds or len(pending) > 64:
            continue
        for feed in facts.graph.feeds(current):
            if feed not in seen:
                seen.add(feed)
                pending.append(feed)
    return seen
