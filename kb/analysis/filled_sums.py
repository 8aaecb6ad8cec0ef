"""Fills that sums begin with."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.ops import READS, OpKind

_FILLS = frozenset({OpKind.FULL, OpKind.ZEROS, OpKind.ZEROS_LIKE, OpKind.ONES})


def fill_of(facts: Facts, value: str) -> Node | None:
    """The fill that an accumulator begins with, where nothing but loads is added before."""
    found = facts.graph.upstream(value, lambda n: n.op.kind in _FILLS or n.op.kind in READS)
    return next((n for n in found if n.op.kind in _FILLS), None)


def filled(facts: Facts, value: str) -> list[Node]:
    """Constant tiles that a carried sum begins with."""
    found = facts.graph.upstream(value, lambda n: n.op.kind in _FILLS)
    return [n for n in found if n.op.kind in _FILLS]
