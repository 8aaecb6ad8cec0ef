"""Loops of threads of which none is left at run time."""

from __future__ import annotations

from collections.abc import Sequence

from kb.analysis.accesses import Access
from kb.analysis.graph import Graph
from kb.analysis.loops import Loop
from kb.ops import OpKind


def unrolled(loop: Loop, loops: Sequence[Loop], accesses: Sequence[Access], graph: Graph) -> bool:
    """True for a loop without rounds at run time; one that reads memory and writes it is work of
    its own in every round, and so is one over what such a loop reads again. Always for one over
    the elements that a layout gives a thread."""
    if loop.range is None or loop.range.op.kind != OpKind.STATIC_RANGE:
        return False
    if graph.kind_of(loop.high) == OpKind.PARTITION:
        return True
    if _works(loop, accesses):
        return False
    read = _read(loop, accesses)
    again = [x for x in loops if not x.node.loops] if read and not loop.node.loops else []
    return not any(_works(x, accesses) and not read.isdisjoint(_read(x, accesses)) for x in again)


def _works(loop: Loop, accesses: Sequence[Access]) -> bool:
    return len({a.is_store for a in accesses if a.node.inside(loop.node)}) == 2


def _read(loop: Loop, accesses: Sequence[Access]) -> set[str]:
    inside = [a for a in accesses if not a.is_store and a.node.inside(loop.node)]
    return {a.array for a in inside if a.array is not None}
