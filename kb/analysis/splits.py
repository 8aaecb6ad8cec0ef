"""Reductions that blocks share out: each loop goes over the own block's piece of the reduced
axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kb.analysis.accesses import BULK, Access, AccessReader, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Carried, Loop, Role, persistent
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr, mul, sub
from kb.ops import COMPARISONS

_PARTS = (AtomKind.FLOOR_DIV, AtomKind.CEIL_DIV, AtomKind.MOD)
Chosen = tuple[Atom, Expr]
"""A number that chooses a piece, and the positions from one piece to the next."""
_COUNTS = (AtomKind.BLOCK, AtomKind.FLOOR_DIV, AtomKind.MOD)


@dataclass(frozen=True, slots=True)
class Piece:
    """A loop over a piece of a reduced axis, and the operations that choose the piece."""

    loop: Loop
    bounds: tuple[Node, ...]


def pieces(facts: Facts) -> list[Piece]:
    """Loops that add up a piece of an axis that a block id chooses: the same number chooses where
    the partial result goes, and nothing else that is read."""
    loops = [
        loop
        for loop in facts.loops
        if grown(loop)
        and (facts.contractions or loop.of(Role.RUNNING_MAXIMUM))
        and not any(a.node.inside(loop.node) for a in facts.stores)
    ]
    still = [a for a in facts.loads if not any(a.node.inside(loop.node) for loop in loops)]
    fixed = {c for a in still for c, _ in _placing(facts, a)} if loops else set()
    found = []
    for loop in loops:
        bounds, chosen = _range(facts, loop)
        stores = [s for c in grown(loop) for s in facts.stored_in(c.result)]
        free = [(c, part) for c, part in chosen if c not in fixed]
        if any(_slots(facts, stores, c, part) for c, part in free):
            found.append(Piece(loop, tuple(bounds)))
    return found


def grown(loop: Loop) -> list[Carried]:
    """What a loop adds up."""
    return loop.of(Role.ACCUMULATOR, Role.RUNNING_SUM)


def fixed_length(facts: Facts, loop: Loop) -> bool:
    """True when the number of rounds is known where the kernel is compiled."""
    length = sub(facts.values.expr(loop.high), facts.values.expr(loop.low))
    return bool(set(length.atoms())) and facts.values.compile_time(length)


def _range(facts: Facts, loop: Loop) -> tuple[list[Node], list[Chosen]]:
    """What makes the range of the loop, or the index of its loads, depend on a block id, and the
    numbers that choose it."""
    if persistent(loop, facts.values) or loop.induction is None:
        return [], []
    chosen = list(_numbers(facts.values.expr(loop.low))) if loop.low is not None else []
    if chosen:
        made = facts.graph.producer(facts.graph.core(loop.low))
        return [n for n in (made, loop.range) if n is not None], chosen
    step = facts.values.expr(loop.induction).atom
    if step is None:
        return [], []
    shifted = [
        (a.node, c)
        for a in facts.loads
        if a.node.inside(loop.node) and a.mode in BULK
        for e in a.index
        if step in set(e.top())
        for c in _numbers(e)
    ]
    found = shifted or _own_part(facts, loop, step)
    return list(dict.fromkeys(n for n, _ in found)), [c for _, c in found]


def _own_part(facts: Facts, loop: Loop, step: Atom) -> list[tuple[Node, Chosen]]:
    """Comparisons of positions that a loop counts from the begin of the block's part, where no
    store takes those positions for its own."""
    return [
        (node, (block, part))
        for node in facts.graph.of(*COMPARISONS)
        if node.inside(loop.node)
        for position in map(facts.values.expr, node.op.inputs)
        for lane in position.top()
        if lane.kind is AtomKind.LANE
        and position.coefficient(lane).constant == 1
        and position.coefficient(step) == lane.args[0]
        for block, part in _numbers(position)
        if not any(_tiles(s, block, part) for s in facts.stores)
    ]


def _numbers(expr: Expr) -> Iterator[Chosen]:
    """Block ids, and quotients and remainders of them, that an expression counts on from, with what
    each is multiplied by."""
    for atom in expr.top():
        first = atom.args[0].atom if atom.args else None
        if atom.kind is AtomKind.BLOCK:
            yield atom, expr.coefficient(atom)
        elif atom.kind in _PARTS and first is not None and first.kind in _COUNTS:
            if atom.args[0].has(AtomKind.BLOCK):
                yield atom, expr.coefficient(atom)
        elif atom.kind in _PARTS:
            yield from _numbers(atom.args[0])
        elif atom.kind in (AtomKind.CHOICE, AtomKind.MINIMUM, AtomKind.MAXIMUM):
            for inner in atom.args:
                yield from _numbers(inner)


def _placing(facts: Facts, access: Access) -> list[Chosen]:
    """The numbers that place an access."""
    made = AccessReader(facts.graph, facts.values).block_pointer(access.base)
    parts = [*access.index]
    if made is not None:
        parts.append(facts.values.expr(made.op.inputs[0]))
    return [c for part in parts for c in _numbers(part)]


def _slots(facts: Facts, stores: list[Access], number: Atom, part: Expr) -> bool:
    """True when a number chooses a slot of its own for what is stored, not a tile of the result; or
    when blocks of all numbers add into one place."""
    placed = [s for s in stores if any(number == c for c, _ in _placing(facts, s))]
    if not placed:
        return any(s.is_atomic for s in stores)
    return not any(_tile(facts, s, number, part) for s in placed)


def _tile(facts: Facts, store: Access, number: Atom, part: Expr) -> bool:
    """True when a number counts tiles of the result that are as long as a piece."""
    shape = store.shape or facts.types.shape(store.value)
    if store.mode not in BULK or len(shape) != len(store.index):
        return _tiles(store, number, part)
    return any(
        str(index.coefficient(number)) == ("1" if store.mode is Mode.TILE else extent)
        and str(part) in ("1", extent)
        for index, extent in zip(store.index, shape, strict=True)
        if extent != "1"
    )


def _tiles(store: Access, block: Atom, part: Expr) -> bool:
    """True when a store writes the part of a block, lane by lane."""
    return any(
        mul(index.coefficient(lane), lane.args[0] if part == ONE else part)
        == index.coefficient(block)
        for index in store.index
        for lane in index.top()
        if lane.kind is AtomKind.LANE
    )
