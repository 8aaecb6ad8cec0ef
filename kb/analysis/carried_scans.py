"""Scans of tiles in a loop that go on with what it carries."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Loop, Role
from kb.analysis.symbolic import AtomKind
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


def serial_scans(facts: Facts) -> list[tuple[Loop, Node, list[Node]]]:
    """The same, where all begin with the first tile of what a block scans; none where blocks take
    the tiles of one row among each other."""
    found = carried_scans(facts)
    return found if all(_from_the_first(facts, loop) for loop, _, _ in found) else []


def _from_the_first(facts: Facts, loop: Loop) -> bool:
    low = facts.values.expr(loop.low) if loop.low is not None else None
    if low is not None and low.has(AtomKind.BLOCK, AtomKind.BLOCKS):
        return False
    inside = [a for a in facts.loads if a.node.inside(loop.node)]
    return not any(_beside(facts, a) for a in inside) and not facts.walks_chunk(loop)


def _beside(facts: Facts, access: Access) -> bool:
    """Whether neighbouring blocks load neighbouring tiles: a block id counts tiles."""
    return any(
        any(a.kind is AtomKind.BLOCK for a in factors)
        and any(a.value in facts.tile_extents for a in factors)
        for index in access.index
        for factors, _ in index.terms
    )
