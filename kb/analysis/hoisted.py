"""What a program computes ahead of a loop, to use it in every round."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.ops import OpKind

_SEEN_AS = VIEWS | CASTS | {OpKind.BITCAST}
_COMPUTED = _SEEN_AS | {OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA}
_MOVING = (AtomKind.BLOCK, AtomKind.LOADED, AtomKind.OPAQUE)
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


def of_every_block(facts: Facts) -> list[Access]:
    """Tiles that every block loads from the same place, for results of its own: without a loop over
    work items each of them is loaded once per item."""
    if facts.of_threads or facts.contractions or facts.item_loops:
        return []
    wide = [a for a in facts.accesses if facts.types.shape(a.value) and a.array is not None]
    own = {a.array for a in wide if any(i.has(*_MOVING) for i in a.index)}
    stores = [a for a in wide if a.is_store and not a.is_atomic]
    if not stores or any(a.array not in own for a in stores):
        return []
    read = {a.array for a in wide if not a.is_store and a.array in own}
    shared = [a for a in wide if not a.is_store and a.array not in own and a.index]
    taken = [a for a in shared if any(facts.graph.rests_on(s.value, a.node) for s in stores)]
    return taken if read else []
