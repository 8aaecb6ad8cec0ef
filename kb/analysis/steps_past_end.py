"""Rounds of a loop that takes several steps at once, held against the end that they may step
over."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.loops import Loop, induction
from kb.analysis.symbolic import AtomKind, Expr
from kb.ops import COMPARISONS, OpKind

_LEFT = (OpKind.CONTINUE, OpKind.BREAK)


def steps_past_end(facts: Facts) -> list[tuple[Node, Node]]:
    """Branches of threads around what a step stores, or before it, each with the comparison that it
    asks: the place that the rounds of two loops tell, against the end of the outer one."""
    found = []
    for branch in facts.graph.of(OpKind.IF) if facts.of_threads else ():
        loops = [one for n in branch.loops if (one := facts.loop(n)) is not None]
        if len(loops) < 2 or not _stored(facts, branch):
            continue
        tests = [n for n in comparisons(facts, branch.op.inputs[0]) if n.op.kind in COMPARISONS]
        found += [(branch, n) for n in tests if any(_over(facts, one, n) for one in loops)]
    return found


def _stored(facts: Facts, branch: Node) -> bool:
    """Whether a branch holds what is stored, or leaves the round that stores."""
    left = any(r.terminator and r.terminator.kind in _LEFT for r in branch.op.regions)
    around = branch.loops[-1] if left else branch
    return any(a.node.inside(around) for a in facts.stores)


def _over(facts: Facts, loop: Loop, test: Node) -> bool:
    """Whether a comparison holds a place of a round and of another loop against the end of the
    loop."""
    if loop.high is None or loop.induction is None:
        return False
    end, round_ = facts.values.expr(loop.high), induction(loop, facts.values)
    left, right = sides(facts, test)
    return end.constant is None and any(
        extent == end and _steps(own, round_) for own, extent in ((left, right), (right, left))
    )


def _steps(own: Expr, round_: Expr) -> bool:
    """A place that a round and that of another loop tell, the same for all threads."""
    counted = {a for a in own.atoms() if a.kind is AtomKind.INDUCTION}
    inner = counted - {*round_.atoms()}
    return bool(counted & {*round_.atoms()}) and bool(inner) and not own.has(AtomKind.LANE)
