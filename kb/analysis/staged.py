"""Masks of a helper that is called twice, once with the diagonal and once without it."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Lines, Node
from kb.analysis.idioms import Mask, between_lanes
from kb.ir import walk
from kb.ops import OpKind


def sided_twins(facts: Facts, inside: list[Mask]) -> list[Node | Lines]:
    """What compares two axes in one of two loops from the same lines and not in the other, the
    masks, the loops, and the calls that the loops come from; empty when no mask differs so."""
    found: list[Node | Lines] = []
    for mask in inside:
        extra = [c for c in mask.comparisons if between_lanes(facts, c)]
        known = {c.lines for c in extra}
        for twin in inside if extra and mask.node.loop is not None else ():
            same = twin.node.lines == mask.node.lines and twin.node.loop is not mask.node.loop
            if same and not any(c.lines in known for c in twin.comparisons):
                loops = [n for n in (mask.node.loop, twin.node.loop) if n is not None]
                found += [*extra, mask.node, *loops, *calls_of(facts, mask.node)]
    return found


def calls_of(facts: Facts, node: Node) -> list[Lines]:
    """The calls in the kernel of the helper that holds an operation."""
    first, last = node.lines
    home = facts.kernel.entry.span.path
    holders = {
        f.name
        for f in facts.kernel.helpers
        if f.span.line <= first and last <= f.span.lines[1] and f.span.path == home
    }
    calls = [op for op in walk(facts.kernel.entry.body) if op.kind == OpKind.CALL]
    return [op.span.lines for op in calls if op.attribute("callee") in holders]
