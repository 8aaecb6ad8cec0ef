"""Scans of tiles in a loop that go on with what it carries."""

from __future__ import annotations

from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Loop, Role
from kb.ops import OpKind

SCANS = (OpKind.CUMSUM, OpKind.CUMPROD, OpKind.SCAN)


def carried_scans(facts: Facts) -> list[tuple[Loop, Node, list[Node]]]:
    """Scans in a loop, with the additions of what the loop carried to their outcome, on a side of a
    branch or after it."""
    found = []
    for scan in facts.graph.of(*SCANS):
        loop = facts.loop(scan.loop)
        states = [s for s in loop.carried if s.role is not Role.COUNTER] if loop else []
        added = [
            node
            for node in (facts.graph.of(OpKind.ADD) if states else ())
            if node.loop is scan.loop
            and any(scan in facts.graph.ends(v, VIEWS | CASTS) for v in node.op.inputs[:2])
            and any(leads(facts.graph, node.result, s.argument) for s in states)
        ]
        if loop is not None and added:
            found.append((loop, scan, added))
    return found
