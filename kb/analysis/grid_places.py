"""Where a kernel reads its places on the grid."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.ops import OpKind


def read_places(facts: Facts, asked: Iterable[object]) -> list[Node]:
    """Reads of the places along those axes of the grid that some operations rest on."""
    along = {
        n.op.attribute("axis")
        for node in asked
        if isinstance(node, Node)
        for value in node.op.inputs
        for n in facts.graph.roots(value, OpKind.BLOCK_ID)
    }
    return [n for n in facts.graph.of(OpKind.BLOCK_ID) if n.op.attribute("axis") in along]
