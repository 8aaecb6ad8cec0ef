"""Loops whose masks a flag leaves out."""

from __future__ import annotations

from collections.abc import Sequence

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import Mask
from kb.analysis.specialise import branches


def region_of(node: Node, branch: Node) -> int | None:
    """The number of the region of a branch that holds a node; None outside of it."""
    current: Node | None = node
    while current is not None and current.parent is not branch:
        current = current.parent
    return None if current is None else current.branch


def masked(facts: Facts, inside: Sequence[Mask]) -> set[Node]:
    """The loops with masks, but those alone whose masks compile-time flags leave out, where other
    loops have some that none leaves out."""
    loops = {m.node.loop for m in inside if m.node.loop is not None}
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
