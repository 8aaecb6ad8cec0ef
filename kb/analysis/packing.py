"""Numbers of a few bits that are joined to words."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.symbolic import AtomKind
from kb.ops import OpKind

_LOOKS = VIEWS | CASTS | {OpKind.BITCAST, OpKind.SELECT}
_SUMS = (OpKind.REDUCE_SUM, OpKind.REDUCE_OR, OpKind.REDUCE)


def packed(facts: Facts) -> list[Node]:
    """What joins numbers to a word that is stored, and the shifts that make room for them."""
    found: list[Node] = []
    for store in facts.stores if facts.graph.of(OpKind.SHIFT_LEFT) else ():
        pending = facts.graph.ends(store.value, _LOOKS)
        for node in pending:
            if node in found:
                continue
            joins = node.op.inputs[:2] if node.op.kind == OpKind.BIT_OR else ()
            parts = [p for v in joins for p in facts.graph.ends(v, _LOOKS)]
            pending += [p for p in parts if p.op.kind == OpKind.BIT_OR]
            shifts = [p for p in parts if _raised(facts, p)]
            if node.op.kind in _SUMS:
                summed = facts.graph.ends(node.op.inputs[0], _LOOKS)
                shifts = [p for p in summed if _raised(facts, p, AtomKind.LANE)]
            found += [*shifts, node] if shifts else []
    return found


def _raised(facts: Facts, shift: Node, *by: AtomKind) -> bool:
    """Loaded or computed numbers shifted up by less than a byte, or by what a lane says."""
    if shift.op.kind != OpKind.SHIFT_LEFT or not facts.feeding(shift.op.inputs[0]):
        return False
    distance = facts.values.expr(shift.op.inputs[1])
    if by:
        return distance.has(*by)
    bits = distance.constant
    return bits is None or 0 < bits < 8
