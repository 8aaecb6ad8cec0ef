"""Work that is counted in steps of the reduced axis over all output tiles: each block takes as many
steps as the next, wherever in a tile they begin and end (stream-K)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.ops import OpKind


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The loop over pieces of a block's steps, the loop over the steps of a piece, what tells the
    tile and the step in it, the block ids that the first step rests on, and what makes it of
    them."""

    outer: Loop
    inner: Loop
    tile: tuple[Node, ...]
    within: tuple[Node, ...]
    ids: tuple[Node, ...]
    begin: tuple[Node, ...]


@lru_cache(maxsize=2)
def streams(facts: Facts) -> tuple[Stream, ...]:
    """Loops around a product where each round begins at the step that the last one ended at, and
    whose steps are taken apart into tiles and steps of a tile."""
    if not facts.contractions or facts.of_threads:
        return ()
    found = []
    for inner in facts.loops:
        outer = facts.loop(inner.node.loop) if inner.node.loop is not None else None
        if outer is None or inner.low is None or inner.high is None:
            continue
        if not any(p.inside(inner.node) for p in facts.contractions):
            continue
        for carried in outer.carried:
            begin, end = facts.graph.core(inner.low), facts.graph.core(inner.high)
            if begin != carried.argument or end != facts.graph.core(carried.next):
                continue
            apart = [
                n
                for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
                if n.inside(outer.node) and facts.graph.core(n.op.inputs[0]) == begin
            ]
            tile = tuple(n for n in apart if n.op.kind == OpKind.FLOOR_DIV)
            within = tuple(n for n in apart if n.op.kind == OpKind.MOD)
            ids = tuple(
                n for n in facts.graph.of(OpKind.BLOCK_ID) if facts.graph.rests_on(carried.init, n)
            )
            if tile and within and ids:
                first = facts.graph.producer(facts.graph.core(carried.init))
                made = (first,) if first is not None else ()
                found.append(Stream(outer, inner, tile, within, ids, made))
    return tuple(found)


def joined(facts: Facts, stream: Stream) -> tuple[list[Node], bool]:
    """Where the pieces of a tile come together, and whether atomics add them up: atomic additions
    of the sum, or what other blocks stored of it, added to it."""
    stores = [s for s in facts.stores if s.node.inside(stream.outer.node)]
    added = [s.node for s in stores if s.is_atomic and len(facts.types.shape(s.value)) > 1]
    if added:
        return added, True
    read = {a.array for a in facts.loads if a.node.inside(stream.outer.node)}
    left = {s.array for s in stores if not s.is_atomic} & read
    return [a.node for a in (*stores, *facts.loads) if a.array in left], False
