"""Loops over tiles and their masks: which loop has some that another one leaves out."""

from __future__ import annotations

from collections.abc import Sequence

from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Lines, Node
from kb.analysis.idioms import Mask
from kb.analysis.specialise import branches
from kb.ir import Origin


def region_of(node: Node, branch: Node) -> int | None:
    """The number of the region of a branch that holds a node; None outside of it."""
    current: Node | None = node
    while current is not None and current.parent is not branch:
        current = current.parent
    return None if current is None else current.branch


def tile_loop(facts: Facts, node: Node) -> Node | None:
    """The loop over tiles around a mask: of those around it the innermost with a product, past the
    loops over elements that a thread holds; without a product the innermost one."""
    around = [n for n in node.loops if any(p.inside(n) for p in facts.contractions)]
    return max(around, key=lambda n: n.index, default=node.loop)


def fewer_behind(facts: Facts, inside: Sequence[Mask]) -> list[Node]:
    """The heads of two loops over the same arrays with as many products, and masks of the one that
    the other, which has some of them, leaves out."""
    loops = [
        loop.node for loop in facts.loops if any(p.inside(loop.node) for p in facts.contractions)
    ]
    told = {
        loop: {_written(m.node) for m in inside if tile_loop(facts, m.node) is loop}
        for loop in loops
    }
    for one in loops:
        for other in loops:
            if (
                not told[other] < told[one]
                or not told[other]
                or one.inside(other)
                or other.inside(one)
            ):
                continue
            same = [
                (sum(p.inside(x) for p in facts.contractions),
                 {a.array for a in facts.loads if a.node.inside(x) and a.array})
                for x in (one, other)
            ]  # fmt: skip
            if same[0] == same[1]:
                own = [m.node for m in inside if _written(m.node) in told[one] - told[other]]
                return [one, other, *own]
    return []


def _written(node: Node) -> Origin | Lines:
    """Where the text of an operation stands, wherever a helper of another file is called."""
    return node.op.span.origin or node.lines


def staged(facts: Facts, inside: Sequence[Mask]) -> list[Node]:
    """The branch, the mask and the loops of a mask that stands in two loops, in one of them only
    for some value of a compile-time parameter."""
    chosen = {branch.node for branch in branches(facts)}
    for mask in inside:
        around = _within(facts, mask, chosen)
        for twin in inside if around else ():
            ends = [tile_loop(facts, m.node) for m in (mask, twin)]
            if twin.node.lines != mask.node.lines or ends[0] is ends[1]:
                continue
            shared = {b.lines for b in _within(facts, twin, chosen)}
            own = [b for b in around if b.lines not in shared]
            if own:
                return [own[0], mask.node, *(n for n in ends if n)]
    return []


def always_made(facts: Facts, inside: Sequence[Mask], twice: list[Node]) -> list[Node]:
    """Masks that no branch of their loop stands around, in each of the loops of a staged one."""
    loops = {n for n in twice if n.op.kind in LOOPS}
    free = [
        m
        for m in inside
        if not any(m.node.loop and b.inside(m.node.loop) for b in facts.guards(m.node))
    ]
    lines = {m.node.lines for m in free}
    whole = [x for x in lines if loops <= {m.node.loop for m in free if m.node.lines == x}]
    return [m.node for m in free if m.node.lines in whole]


def _within(facts: Facts, mask: Mask, chosen: set[Node]) -> list[Node]:
    """The branches around a mask in its loop that are among those given."""
    loop = tile_loop(facts, mask.node)
    around = [b for b in facts.guards(mask.node) if loop is not None and b.inside(loop)]
    return [b for b in around if b in chosen]


def masked(facts: Facts, inside: Sequence[Mask]) -> set[Node]:
    """The loops with masks, but those alone whose masks compile-time flags leave out, where other
    loops have some that none leaves out."""
    loops = {loop for m in inside if (loop := tile_loop(facts, m.node)) is not None}
    always = {loop for loop in loops if not _left_out(facts, loop, inside)}
    return always or loops


def _left_out(facts: Facts, loop: Node, inside: Sequence[Mask]) -> bool:
    """Whether every mask of a loop stands on one side of a branch by a flag, and none on the
    other."""
    chosen = {branch.node for branch in branches(facts)}
    own = [m.node for m in inside if m.node.inside(loop)]
    return all(
        any(
            branch.inside(loop) and len({region_of(n, branch) for n in own} - {None}) == 1
            for branch in facts.guards(node)
            if branch in chosen
        )
        for node in own
    )
