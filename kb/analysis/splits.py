"""Reductions that blocks share out: each loop goes over the own block's piece of the reduced
axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kb.analysis.accesses import BULK, Access, AccessReader, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Carried, Loop, Role, persistent
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr, mul, of, sub
from kb.ops import COMPARISONS, OpKind

_PARTS = (AtomKind.FLOOR_DIV, AtomKind.CEIL_DIV, AtomKind.MOD)
Chosen = tuple[Atom, Expr]
"""A number that chooses a piece, and the positions from one piece to the next."""
_COUNTS = (AtomKind.BLOCK, AtomKind.FLOOR_DIV, AtomKind.MOD)


@dataclass(frozen=True, slots=True)
class Piece:
    """A loop over a piece of a reduced axis, the operations that choose the piece, and the stores
    that the number of the piece places."""

    loop: Loop
    bounds: tuple[Node, ...]
    slots: tuple[Access, ...] = ()


@lru_cache(maxsize=2)
def pieces(facts: Facts) -> list[Piece]:
    """Loops that add up a piece of an axis that a block id chooses: the same number chooses where
    the partial result goes, and nothing else that is read."""
    loops = [
        loop
        for loop in facts.loops
        if (
            loop.of(Role.ACCUMULATOR, Role.RUNNING_SUM)
            and (facts.contractions or loop.of(Role.RUNNING_MAXIMUM))
        )
        or _added(facts, loop)
        if not any(a.node.inside(loop.node) for a in facts.stores)
    ]
    still = [a for a in facts.loads if not any(a.node.inside(loop.node) for loop in loops)]
    fixed = {c for a in still for c, _ in _placing(facts, a)} if loops else set()
    found = []
    for loop in loops:
        bounds, chosen = _range(facts, loop)
        stores = [s for c in grown(loop) for s in facts.stored_in(c.result)]
        free = [
            (c, part) for c, part in chosen if c not in fixed and not _beyond(facts, loop, part)
        ]
        if any(_slots(facts, stores, c, part) for c, part in free):
            placed = [
                s for s in stores if {c for c, _ in _placing(facts, s)} & {c for c, _ in free}
            ]
            found.append(Piece(loop, tuple(bounds), tuple(placed)))
        elif listed := _listed(facts, loop, stores):
            found.append(Piece(loop, listed, tuple(stores)))
    return found


def _added(facts: Facts, loop: Loop) -> bool:
    """Whether a loop sums up lane by lane what an atomic adds to the sums of other blocks."""
    atomics = [] if facts.contractions or facts.of_threads else facts.stores
    sums = [c.result for c in loop.of(Role.SUM)]
    return any(s.is_atomic and s in facts.stored_in(v, [s]) for s in atomics for v in sums)


def _listed(facts: Facts, loop: Loop, stores: list[Access]) -> tuple[Node, ...]:
    """The loads of where the block's piece begins, a number from a list, that counts in pieces
    which slot the partial result goes to."""
    places = [i for a in facts.loads if a.node.inside(loop.node) for i in a.index]
    places += [facts.values.expr(loop.low)] if loop.low is not None else []
    begins = {atom for i in places for atom in i.top() if atom.kind is AtomKind.LOADED}
    slots = {
        atom.args[0].atom
        for store in stores
        for index in store.index
        for atom in index.top()
        if atom.kind is AtomKind.FLOOR_DIV
    }
    made = [facts.graph.producer(atom.value) for atom in begins & {a for a in slots if a}]
    return tuple(n for n in made if n is not None and not n.inside(loop.node))


def shared_out(facts: Facts) -> list[Piece]:
    """Loops that stride over rows by the number of blocks and add them up: the block id chooses
    where the partial result goes, which is all that the loop leaves."""
    found = []
    for loop in facts.loops:
        states = loop.of(Role.SUM, Role.ACCUMULATOR, Role.RUNNING_SUM)
        if not states or loop.low is None or not persistent(loop, facts.values):
            continue
        if any(a.node.inside(loop.node) for a in facts.stores):
            continue
        stores = [s for c in states for s in facts.stored_in(c.result)]
        if any(_slots(facts, stores, c, p) for c, p in _numbers(facts.values.expr(loop.low))):
            found.append(Piece(loop, tuple(n for n in (loop.range,) if n is not None)))
    return found


def grown(loop: Loop) -> list[Carried]:
    """What a loop adds up."""
    return loop.of(Role.ACCUMULATOR, Role.RUNNING_SUM) or loop.of(Role.SUM)


def fixed_length(facts: Facts, loop: Loop) -> bool:
    """True when the number of rounds is known where the kernel is compiled."""
    length = sub(facts.values.expr(loop.high), facts.values.expr(loop.low))
    return bool(set(length.atoms())) and facts.values.compile_time(length)


def lane_sums(facts: Facts, store: Access) -> list[Node]:
    """Sums of products whose tiles a block id places that the sum's own place knows nothing
    of."""
    own = _blocks(store)
    return [
        total
        for total in facts.graph.roots(store.value, OpKind.REDUCE_SUM)
        if len(
            {
                a.array
                for a in facts.feeding(total.op.inputs[0])
                if facts.types.shape(a.value) and _blocks(a) - own
            }
        )
        > 1
    ]


@dataclass(frozen=True, slots=True)
class Added:
    """A loop of threads that adds up products over the own block's part of an axis, the block ids
    that choose the part, and the atomic that adds the sum to those of the other blocks."""

    loop: Loop
    blocks: tuple[Node, ...]
    store: Access


@lru_cache(maxsize=2)
def added_parts(facts: Facts) -> list[Added]:
    """Sums of several arrays in loops of threads, read where a block id says that the place of the
    atomic knows nothing of."""
    if not facts.of_threads or facts.contractions:
        return []
    ids = {facts.values.expr(n.result).atom: n for n in facts.graph.of(OpKind.BLOCK_ID)}
    found = []
    for store in facts.stores:
        if store.node.op.kind != OpKind.ATOMIC_ADD or store.array is None:
            continue
        for loop in facts.loops:
            sums = loop.of(Role.SUM, Role.ACCUMULATOR, Role.RUNNING_SUM)
            if store.node.inside(loop.node) or persistent(loop, facts.values):
                continue
            if not any(store in facts.stored_in(c.result, [store]) for c in sums):
                continue
            read = [a for a in facts.feeding(store.value) if a.array != store.array]
            others: dict[str | None, set[Atom]] = {}
            for a in read:
                others.setdefault(a.array, set()).update(_blocks(a) - _blocks(store))
            parts = set.intersection(*others.values()) if len(others) > 1 else set()
            parts = parts or {b for each in others.values() for b in each}
            if sum(bool(each) for each in others.values()) > 1:
                found.append(Added(loop, tuple(n for b, n in ids.items() if b in parts), store))
    return found


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
    found = shifted or _own_part(facts, loop, step) or _own_lanes(facts, loop)
    return list(dict.fromkeys(n for n, _ in found)), [c for _, c in found]


def over_own_row(facts: Facts, loop: Loop) -> bool:
    """True for a loop that begins where a block's own row does and walks all of it."""
    begins = _numbers(facts.values.expr(loop.low)) if loop.low is not None else ()
    return any(_beyond(facts, loop, part) for _, part in begins)


def _beyond(facts: Facts, loop: Loop, part: Expr) -> bool:
    """True when the pieces begin at a multiple of what a loop walks: rows, of which each block
    walks its own from end to end, and no pieces of one axis."""
    if loop.low is None or loop.high is None:
        return False
    length = sub(facts.values.expr(loop.high), facts.values.expr(loop.low))
    if len(length.terms) != 1 or len(part.terms) != 1 or not length.terms[0][0]:
        return False
    (walked, one), (begin, other) = length.terms[0], part.terms[0]
    rest = [atom for atom in begin if atom not in walked]
    return set(walked) <= set(begin) and other % one == 0 and (bool(rest) or other != one)


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


def _own_lanes(facts: Facts, loop: Loop) -> list[tuple[Node, Chosen]]:
    """Loads of a loop that all begin where one number says: so many pieces on as it counts, each as
    long as the lanes that the loop goes along; or, under the extent of the axis, as what its rounds
    are counted by."""
    loads = [a for a in facts.loads if a.node.inside(loop.node) and facts.types.shape(a.value)]
    if len(loads) < 2 or any(a.mode is not Mode.POINTER for a in loads):
        return []
    counted = facts.values.expr(loop.high).atoms() if loop.high is not None else ()
    lengths = {of(atom) for atom in counted if atom.kind is AtomKind.PARAMETER}
    found = [
        [
            (a.node, (number, part))
            for index in a.index
            for expr, lane in _along(facts, loop, index)
            for number, part in _numbers(expr)
            for length in (lane.args[0], *(lengths if expr != index else ()))
            if part == mul(expr.coefficient(lane), length)
        ]
        for a in loads
    ]
    common = set.intersection(*({number for _, (number, _) in each} for each in found))
    if not common and any(s.is_atomic for s in facts.stores):
        placed = {number for s in facts.stores for number, _ in _placing(facts, s)}
        common = {number for each in found for _, (number, _) in each} - placed
    common = {n for n in common if not any(_tiles(s, n, ONE) for s in facts.stores)}
    ids = [(n, facts.values.expr(n.result).atom) for n in facts.graph.of(OpKind.BLOCK_ID)]
    return [
        (made, chosen)
        for each in found
        for load, chosen in each
        if chosen[0] in common
        for made in (
            *(n for n, atom in ids if atom == chosen[0]),
            *(_begins(facts, load, *chosen) or [load]),
        )
    ]


def _begins(facts: Facts, load: Node, number: Atom, part: Expr) -> list[Node]:
    """Where a load's address says how far on its piece begins."""
    start = mul(of(number), part)
    above = facts.graph.upstream(load.op.operand("pointer") or "")
    return [n for n in above if n.op.kind == OpKind.MUL and facts.values.expr(n.result) == start]


def _along(facts: Facts, loop: Loop, index: Expr) -> Iterator[tuple[Expr, Atom]]:
    """The lanes of an index that a loop goes along: alone, or under a remainder."""
    rounds = [
        index.coefficient(atom)
        for atom in index.top()
        if atom.value in (loop.induction, loop.node.result)
        and atom.kind in (AtomKind.INDUCTION, AtomKind.COUNT)
    ]
    held = [(x.args[0], index.coefficient(x)) for x in index.top() if x.kind is AtomKind.MOD]
    for expr, unit in [(index, ONE), *held]:
        for lane in expr.top():
            one = mul(unit, expr.coefficient(lane)) if lane.kind is AtomKind.LANE else None
            tile = mul(one, lane.args[0]) if one is not None else None
            if one is None or tile is None:
                continue
            if any(_goes(step, one, tile) for step in rounds):
                yield expr, lane


def _goes(step: Expr, one: Expr, tile: Expr) -> bool:
    """True for steps along an axis: of single positions, of whole tiles, or of so many tiles."""
    return step in (one, tile) or any(step == mul(tile, of(atom)) for atom in step.atoms())


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


def _blocks(access: Access) -> set[Atom]:
    """The block ids that an access is placed by."""
    return {a for index in access.index for a in index.atoms() if a.kind is AtomKind.BLOCK}
