"""One launch that walks the tiles of several problems: a cursor that starts at the block id is
carried over a loop of problems, and an inner loop moves it on up to the running end."""

from __future__ import annotations

from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.analysis.loops import Carried, Loop
from kb.analysis.symbolic import AtomKind
from kb.ops import OpKind

_COMPARED = (OpKind.LT, OpKind.GE, OpKind.LE, OpKind.GT)


def problem_walk(facts: Facts) -> list[Node]:
    """The loop of problems, the inner loop, and the additions that move the end on; empty when
    there is no such walk."""
    inner = [loop for loop in facts.loops if loop.node.loops and _counts(facts, loop)]
    for problems in facts.loops if inner else ():
        for cursor in problems.carried:
            if not facts.values.expr(cursor.init).has(AtomKind.BLOCK):
                continue
            for walk in inner:
                ends = _ends(facts, problems, walk, cursor)
                if ends:
                    return [problems.node, walk.node, *ends]
    return []


def _counts(facts: Facts, loop: Loop) -> bool:
    """A loop that asks in every round whether to go on, or that has as many rounds as are left up
    to a bound under a branch."""
    return loop.node.op.kind == OpKind.WHILE or (
        loop.high is not None and bool(loop.carried) and bool(facts.guards(loop.node))
    )


def _asked(facts: Facts, inner: Loop, problems: Loop, cursor: Carried) -> list[Node]:
    """The comparisons that say whether the inner loop runs."""
    tests = facts.graph.of(*_COMPARED)
    if inner.node.op.kind == OpKind.WHILE:
        return [n for n in tests if n.parent is inner.node]
    if inner.high is None or not leads(facts.graph, inner.high, cursor.argument):
        return []
    around = [g.op.inputs[0] for g in facts.guards(inner.node) if g.inside(problems.node)]
    return [n for n in tests if any(facts.graph.rests_on(v, n) for v in around)]


def _ends(facts: Facts, problems: Loop, inner: Loop, cursor: Carried) -> list[Node]:
    """The additions that move on the end that the inner loop compares with."""
    if not inner.node.inside(problems.node):
        return []
    if not any(c.init == cursor.argument for c in inner.carried):
        return []
    tests = _asked(facts, inner, problems, cursor)
    found = []
    for end in problems.carried:
        grown = [n for n in facts.graph.ends(end.next, COPIES) if n.op.kind == OpKind.ADD]
        if end is cursor or not grown:
            continue
        if any(leads(facts.graph, v, end.argument) for t in tests for v in t.op.inputs):
            found.append(grown[0])
    return found
