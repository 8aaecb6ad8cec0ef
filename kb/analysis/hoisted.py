"""What a program computes ahead of a loop, to use it in every round."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Loop
from kb.ops import OpKind

_SEEN_AS = VIEWS | CASTS | {OpKind.BITCAST}
_COMPUTED = _SEEN_AS | {OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA}
MOST = 32
"""Values that a load is followed through before a loop."""


def prepared(facts: Facts, access: Access, loop: Loop) -> list[Node]:
    """What is computed with a load before a loop, and used in it as it is."""
    found: list[Node] = []
    pending = [access.value]
    for value in pending:
        for node in facts.graph.users(value):
            if node.inside(loop.node) or node.op.kind not in _COMPUTED or len(pending) > MOST:
                continue
            pending.append(node.result)
            used = any(user.inside(loop.node) for user in facts.graph.users(node.result))
            if used and node.op.kind not in _SEEN_AS:
                found.append(node)
    return found
