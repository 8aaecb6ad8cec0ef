"""On which compile-time flags an operation runs."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node


def unless(facts: Facts, node: Node) -> list[str]:
    """Of the compile-time flags whose branches an operation stands in, what makes it not run."""
    found = []
    inside = {one.parent: one.branch for one in (node, *node.around()) if one.parent is not None}
    for branch in facts.guards(node):
        flag = facts.graph.core(branch.op.inputs[0])
        if flag in facts.constexprs and branch in inside:
            found.append(flag if inside[branch] else f"not {flag}")
    return found
