"""Contiguous chunks of work items, one chunk to a block."""

from __future__ import annotations

from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.items import counted, walked
from kb.analysis.loops import Loop, Role, persistent
from kb.analysis.splits import added_parts
from kb.analysis.symbolic import AtomKind, Expr, of
from kb.ops import OpKind


def chunk_steps(facts: Facts, loop: Loop) -> list[Node]:
    """What says where the chunk of a loop begins and ends; empty when the loop goes through no
    chunk of rows or tiles that is the block's own."""
    stores = _stores(facts, loop)
    if any(part.loop is loop for part in added_parts(facts)):
        return []
    if facts.contractions:
        return _tiles(facts, loop) if stores else []
    if not stores and not (loop.of(Role.SUM, Role.ACCUMULATOR) and _sums_lanes(facts, loop)):
        return []
    bounds: list[str | None] = []
    if facts.walks_chunk(loop):
        bounds = [loop.low, loop.high]
    elif persistent(loop, facts.values):
        return []
    else:
        bounds += walked(loop, facts.values)
    made = [facts.graph.producer(facts.graph.core(b)) for b in bounds]
    bounded = [n for n in made if n is not None]
    if bounded or not stores or not _holds_lanes(facts, loop) or _one_row(facts, loop):
        return bounded
    return counted(facts.graph, facts.values, loop)[:1]


def _tiles(facts: Facts, loop: Loop) -> list[Node]:
    """Where a chunk of tiles of products begins and ends; where other block ids choose the tile,
    the loop runs over what shares it, as the heads of a group."""
    ids = {facts.values.expr(n.result) for n in facts.graph.of(OpKind.BLOCK_ID)}
    if len(ids) != 1 or not facts.walks_chunk(loop):
        return []
    made = [facts.graph.producer(facts.graph.core(b)) for b in (loop.low, loop.high)]
    return [n for n in made if n is not None]


def _holds_lanes(facts: Facts, loop: Loop) -> bool:
    """Items of a chunk are rows or tiles; single numbers one after the other are a row."""
    return any(
        index.has(AtomKind.LANE) or a.mode is not Mode.POINTER
        for a in facts.accesses
        if a.node.inside(loop.node)
        for index in a.index
    )


def _sums_lanes(facts: Facts, loop: Loop) -> bool:
    """True when lanes of what is added up lie where the loop counts; where a loaded number says so,
    as the row that an expert gave, the loop runs over what makes one result."""
    return any(
        atom.kind in (AtomKind.INDUCTION, AtomKind.COUNT) and index.has(AtomKind.LANE)
        for a in facts.loads
        if a.node.inside(loop.node)
        for index in a.index
        for atom in index.atoms()
        if atom.value in (loop.induction, loop.node.result)
    )


def _one_row(facts: Facts, loop: Loop) -> bool:
    """True when there is another loop over as much, and what one of the two stores rests on the
    other: they go through one row."""
    rounds = facts.values.expr(loop.high) if loop.high is not None else None
    return any(
        _rests(facts, one, another)
        for other in facts.loops
        if other is not loop and other.high is not None and facts.values.expr(other.high) == rounds
        for one, another in ((loop, other), (other, loop))
    )


def _rests(facts: Facts, loop: Loop, on: Loop) -> bool:
    """Whether anything that a loop stores rests on another loop."""
    rest = (a.node for a in facts.stores if facts.graph.rests_on(a.value, on.node))
    return any(node.inside(loop.node) for node in rest)


def _stores(facts: Facts, loop: Loop) -> bool:
    return any(a.node.inside(loop.node) for a in facts.stores)


def chunk_extents(facts: Facts) -> frozenset[str]:
    """Compile-time parameters that say how far a block goes through what it is given: factors of
    where a loop begins, by the block id, and parts of where it ends."""
    return frozenset(
        a.value
        for loop in facts.loops
        for low in _alternatives(facts.values.expr(loop.low))
        for factors, _ in low.terms
        if any(a.kind is not AtomKind.PARAMETER and of(a).has(AtomKind.BLOCK) for a in factors)
        for a in factors
        if a.value in facts.constexprs and a in facts.values.expr(loop.high).atoms()
    )


def _alternatives(expr: Expr) -> list[Expr]:
    """A number, or what it is chosen from."""
    chosen = expr.atom is not None and expr.atom.kind is AtomKind.CHOICE
    return [*expr.atom.args] if expr.atom is not None and chosen else [expr]
