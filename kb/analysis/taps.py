"""Taps: neighbouring elements of one array, loaded one by one, and the weights that meet them."""

from __future__ import annotations

from math import prod

from kb.analysis import symbolic as s
from kb.analysis.accesses import Access, Mode
from kb.analysis.chosen_positions import picked_from
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.ops import REDUCTIONS, OpKind

_COUNTS = frozenset({"i32", "i64", "u32", "u64"})
MOST = 48
"""Loads of one array that are compared with each other."""


def shifted(facts: Facts) -> list[list[Access]]:
    """Of every array the loads whose positions differ by small numbers, if there are several."""
    found = []
    for loads in (group[:MOST] for group in _tiles(facts).values()):
        near = [a for a in loads if any(_near(facts, a, b) for b in loads)]
        near = [a for a in near if not _ends(facts, a, near)]
        if len(near) > 1:
            found.append(near)
    return found


def _ends(facts: Facts, access: Access, beside: list[Access]) -> bool:
    """Whether a whole number says where a part begins or ends: it is taken off its neighbour, or
    bounds a loop."""
    whole = facts.types.dtype(access.value) in _COUNTS or access.value in facts.offset_loads
    if not whole:
        return False
    bounds = [v for x in facts.loops for v in (x.low, x.high) if v is not None]
    others = [b for b in beside if b is not access]
    return any(access in facts.feeding(v) for v in bounds) or any(
        access in facts.held_loads(own) and any(b in facts.held_loads(other) for b in others)
        for n in facts.graph.of(OpKind.SUB)
        for own, other in (n.op.inputs[:2], n.op.inputs[1::-1])
    )


def stepped(facts: Facts) -> list[Access]:
    """Loads in loops whose rounds shift them along their own lanes."""
    return [
        a
        for group in _tiles(facts).values()
        for a in group
        if any(_tap(facts, x, a) for x in facts.loops if a.node.inside(x.node))
    ]


def weighted(facts: Facts) -> list[Node]:
    """Products of taps with what is loaded from another array, that enter one result lane by lane:
    the sum of a convolution."""
    groups = (*((group, 2) for group in shifted(facts)), (stepped(facts), 1))
    for taps, least in groups:
        pairs = [pair for a in taps if (pair := _product(facts, a)) is not None]
        found = list(dict.fromkeys(node for node, _ in pairs))
        own = len({id(w) for _, w in pairs if w is not None}) > 1 or least == 1
        if (
            len(pairs) >= least
            and (own or any(w is None for _, w in pairs))
            and any(all(facts.graph.rests_on(s.value, n) for n in found) for s in facts.stores)
        ):
            return found
    return []


def _product(facts: Facts, tap: Access) -> tuple[Node, Access | None] | None:
    """The product of a tap, perhaps cast, with an element of another array, and the load of that,
    which a loop around the tap moves, too, if there is one; of what is computed from a tap, with
    an element that is picked by its place, without the load."""
    for node in facts.graph.of(OpKind.MUL, OpKind.FMA):
        for own, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            picked = _picked(facts, other)
            weights = picked
            if tap in facts.held_loads(own):
                weights = facts.held_loads(other) or picked
            elif tap not in facts.feeding(own) or facts.graph.roots(own, *REDUCTIONS):
                continue
            apart = bool(weights) and all(a.array != tap.array for a in weights)
            if apart and (picked or _alike(facts, tap, weights[0])):
                if not _reduced(facts, node):
                    return node, None if picked else weights[0]
    return None


def _alike(facts: Facts, tap: Access, weight: Access) -> bool:
    """Whether the rounds that shift a tap move its weight, too, where there are such rounds."""
    loops = [x for x in facts.loops if tap.node.inside(x.node) and _tap(facts, x, tap)]
    moved = {facts.values.expr(x.induction).atom for x in loops}
    return not loops or any(a in moved for e in weight.index for a in e.atoms())


def _reduced(facts: Facts, node: Node) -> bool:
    """Whether lanes are added up behind a product: it is none of a sum lane by lane."""
    return any(facts.graph.rests_on(total.result, node) for total in facts.reductions)


def _picked(facts: Facts, value: str) -> list[Access]:
    """The loads of a tile of which a value is one element, picked by its place."""
    tile = picked_from(facts, facts.graph.producer(facts.graph.core(value)))
    return facts.held_loads(tile) if tile is not None else []


def _tiles(facts: Facts) -> dict[str, list[Access]]:
    groups: dict[str, list[Access]] = {}
    for access in facts.loads:
        if access.array is not None and facts.types.shape(access.value):
            groups.setdefault(access.array, []).append(access)
    return groups


def _tap(facts: Facts, loop: Loop, access: Access) -> bool:
    """True when every round moves the positions of all lanes on by less than a tile, along the
    axis of the lanes, a number of times that is known beforehand and that goes past what a lane
    has of its own."""
    high, low = facts.values.expr(loop.high), facts.values.expr(loop.low)
    step = facts.values.expr(loop.induction).atom
    if loop.step is not None and facts.values.expr(loop.step) != s.ONE:
        return False
    if loop.high is None or step is None or not facts.values.compile_time(s.sub(high, low)):
        return False
    for index in access.index:
        by = index.coefficient(step)
        for lane in index.top() if by.terms else ():
            if lane.kind is not AtomKind.LANE or (along := index.coefficient(lane)) == s.ZERO:
                continue
            tile = s.mul(along, lane.args[0])
            own = s.mul(by, s.sub(high, low)) == along
            if own or tile == by or (s.sub(high, low).constant or 2) < 2:
                continue
            strides = [
                {a for f, _ in e.terms for a in f if not facts.values.compile_time(s.of(a))}
                for e in (along, by)
            ]
            if strides[0] == strides[1] and (strides[0] or along == by == s.ONE):
                return True
    return any(_neighbouring(index, step) for index in access.index)


def _neighbouring(index: s.Expr, step: s.Atom) -> bool:
    """True where rounds go from the block's own row to the rows beside it."""
    by = index.coefficient(step)
    hop = by if by.terms and by.terms[0][1] > 0 else s.scale(by, -1)
    lanes = [a for a in index.top() if a.kind is AtomKind.LANE]
    if not by.terms or any(s.mul(index.coefficient(a), a.args[0]) == hop for a in lanes):
        return False
    return any(
        s.of(atom).has(AtomKind.BLOCK) and index.coefficient(atom) == hop for atom in index.top()
    )


def _near(facts: Facts, first: Access, second: Access) -> bool:
    """True for elements a few places apart; whole tiles, the vectors of a thread, and what the
    lanes hold, lie side by side instead."""
    if len(first.index) != len(second.index) or first.mode in (Mode.TILE, Mode.DESCRIPTOR):
        return False
    gaps = [
        (a, s.sub(a, b).constant) for a, b in zip(first.index, second.index, strict=True) if a != b
    ]
    index, gap = gaps[0] if len(gaps) == 1 else (s.ZERO, None)
    if gap is None or abs(gap) > 16:
        return False
    moved = [e for e in facts.types.shape(first.value) if e.isdigit()]
    several = prod(map(int, moved)) if facts.of_threads else 1
    if several > 1 and abs(gap) % several == 0:
        return False
    moving = [a for a in index.top() if s.of(a).has(AtomKind.LANE, AtomKind.LOADED)]
    steps = [index.coefficient(a).constant for a in moving]
    if None in steps and _checks(facts, first) == _checks(facts, second):
        return False
    return bool(steps) and not any(n is not None and abs(n) > abs(gap) for n in steps)


def _checks(facts: Facts, access: Access) -> set[tuple[str, ...]]:
    """The comparisons of a mask: for fields of a record they do not move with the field."""
    return {
        (c.kind, *(str(side) for side in sides(facts, c))) for c in comparisons(facts, access.mask)
    }


def moved_on(facts: Facts) -> list[Access]:
    """Loads and stores of one array where every stored element comes from the place before or
    behind it: a window that loses its oldest element and takes a new one in."""
    if facts.contractions or facts.of_threads:
        return []
    found: list[Access] = []
    for store in facts.stores:
        for load in facts.loads if store.value is not None and not store.is_atomic else ():
            if load.array != store.array or load.node.loops or load.node.index > store.node.index:
                continue
            apart = _apart(load, store)
            if apart in (1, -1) and load.node in facts.graph.upstream(store.value, _computes):
                found += [load, store]
    return list(dict.fromkeys(found))


def _computes(node: Node) -> bool:
    """True for all but what hands elements on as they are, or chooses among them."""
    return node.op.kind not in VIEWS | CASTS | {OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION}


def _apart(load: Access, store: Access) -> int | None:
    """How many places along its last axis an access lies behind another of the same array, of whose
    places it differs in nothing else."""
    if len(load.index) != len(store.index) or load.index[:-1] != store.index[:-1]:
        return None
    behind = s.sub(load.index[-1], store.index[-1]).constant if load.index else None
    return behind if isinstance(behind, int) else None
