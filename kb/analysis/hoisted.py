"""What a program computes ahead of a loop, to use it in every round."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import Atom, AtomKind
from kb.ops import ATOMICS, READS, OpKind

_SEEN_AS = VIEWS | CASTS | {OpKind.BITCAST}
_COMPUTED = _SEEN_AS | {OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA}
_MOVING = (AtomKind.BLOCK, AtomKind.LOADED, AtomKind.OPAQUE)
_PARTED = (AtomKind.FLOOR_DIV, AtomKind.MOD, AtomKind.CEIL_DIV)
_COUNTED = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT)
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
    """Tiles that several blocks load from the same place, each for results of its own: without a
    loop over work items each of them is loaded once per item."""
    if facts.contractions or facts.item_loops:
        return []
    named = [a for a in facts.accesses if a.array is not None and not a.is_atomic]
    parts = {a: block_parts(a) for a in named}
    stores = [a for a in named if a.is_store and parts[a] and _is_wide(facts, a)]
    loads = [a for a in named if not a.is_store and (_is_wide(facts, a) or _is_factor(facts, a))]
    taking: dict[Access, list[Access]] = {}
    for store in stores:
        for load in facts.feeding(store.value):
            taking.setdefault(load, []).append(store)
    fewer = {
        a: all(parts[a] < parts[s] or _by_fewer(parts[a], parts[s]) for s in taking[a])
        for a in loads
        if a in taking
    }
    own = {a.array for a, less in fewer.items() if not less}
    found = [a for a, less in fewer.items() if less and a.array not in own]
    kept = [a for a in found if _over_rounds(facts, a)]
    if not own or (kept and not facts.of_threads):
        return []
    places = facts.offset_loads
    told = [a for a in found if a not in kept and a.value not in places]
    return [a for a in told if not parts[a] or not _of_a_round(facts, a)]


def _by_fewer(parts: frozenset[Atom], others: frozenset[Atom]) -> bool:
    """Whether block ids alone say where something is, in whatever way, and other places differ by
    these and by another id."""
    ids, more = (
        {a for part in one for a in (part, *(x for e in part.args for x in e.atoms()))}
        for one in (parts, others)
    )
    known = not any(a.kind in (AtomKind.LOADED, AtomKind.OPAQUE) for a in ids | more)
    own, all_ids = ({a for a in one if a.kind is AtomKind.BLOCK} for one in (ids, more))
    return known and bool(own) and own < all_ids


def _of_a_round(facts: Facts, access: Access) -> bool:
    """Whether a loop that hands a tile on loads something else in every round."""
    loops = [facts.loop(node) for node in access.node.loops]
    return any(facts.types.shape(c.argument) for x in loops if x is not None for c in x.carried)


def _is_wide(facts: Facts, access: Access) -> bool:
    """Whether an access is one of a tile, or its place differs from lane to lane."""
    shape = facts.types.shape(access.value)
    return bool(shape) or any(i.has(AtomKind.LANE) for i in access.index)


def _is_factor(facts: Facts, access: Access) -> bool:
    """Whether a single number is multiplied with a tile, or stands in a quotient."""
    if facts.types.dtype(access.value).startswith(("i", "u")):
        return False
    users = facts.graph.users(access.value)
    users += [u for n in users if n.op.kind in _SEEN_AS for u in facts.graph.users(n.result)]
    products = [n for n in users if n.op.kind in (OpKind.MUL, OpKind.FMA)]
    quotient = any(n.op.kind == OpKind.DIV for n in users)
    return quotient or any(facts.types.shape(n.result) for n in products)


def block_parts(access: Access) -> frozenset[Atom]:
    """What of the block ids, or of numbers loaded with them, says where an access is."""
    found: set[Atom] = set()
    pending = [atom for one in access.index for atom in one.top()]
    for atom in pending:
        if atom.kind in _MOVING or (atom.kind in _PARTED and _moves(atom)):
            found.add(atom)
        else:
            pending += [inner for one in atom.args for inner in one.top()]
    return frozenset(found)


def _moves(atom: Atom) -> bool:
    return any(one.has(*_MOVING) for one in atom.args)


def _over_rounds(facts: Facts, access: Access) -> bool:
    """Whether a loop that the load stands before computes with it."""
    loops = {loop.node for loop in facts.rolled_loops} - {*access.node.loops}
    users = facts.graph.downstream(access.value, MOST) if loops else ()
    return any(loop in loops for n in users for loop in n.loops)


def still_in_rounds(facts: Facts) -> list[Access]:
    """What a thread loads again in every round of a loop, from a place that the rounds do not move,
    of an array that none of them writes and of which nothing before the loop has loaded it."""
    found: dict[Access, None] = {}
    for loop in facts.rolled_loops if facts.of_threads else ():
        if loop.range is None or loop.range.op.kind == OpKind.STATIC_RANGE:
            continue
        written = {a.array for a in facts.stores if a.node.inside(loop.node)}
        inside = [a for a in facts.loads if a.node.inside(loop.node) and a.array is not None]
        before = {(a.array, a.index) for a in facts.loads if not a.node.inside(loop.node)}
        rounds = [
            *(c.argument for c in loop.carried),
            *([loop.induction] if loop.induction else []),
        ]
        changed = facts.graph.node_set(
            n
            for n in facts.graph.of(*READS, *ATOMICS)
            if n.inside(loop.node) and _changes(facts.access(n), written)
        )
        for access in inside:
            places = [v for v in (access.base, *access.address) if v is not None]
            moved = any(facts.graph.rests_on_argument(v, one) for v in places for one in rounds)
            moved = moved or any(facts.graph.rests_on_any(v, changed) for v in places)
            known = access.array in written or (access.array, access.index) in before
            if access.index and not moved and not known:
                found[access] = None
    return list(found)


def _changes(access: Access | None, written: set[str | None]) -> bool:
    """Whether what is read may be another number in the next round."""
    return access is None or access.is_atomic or access.array is None or access.array in written


def staged(facts: Facts, loop: Loop) -> list[Access]:
    """What a loop over elements has put into shared memory before a loop over items begins."""
    graph = facts.threads
    shared = [n for n in graph.of(OpKind.STORE) if n.op.attribute("space") == "shared"]
    values = {graph.through(n.op.operand("value"), _SEEN_AS) for n in shared}
    if loop.node.loop is not None:
        return []
    return [
        a
        for a in facts.loads
        if a.value in values
        and a.node.index < loop.node.index
        and not set(a.node.loops) <= set(loop.node.loops)
    ]


def in_registers(facts: Facts, loop: Loop) -> list[Access]:
    """What loops over the elements of arrays in registers have loaded before a loop over items."""
    found = [a for a in facts.loads if a.loop is not None and a.node.index < loop.node.index]
    walks = {x.node for x in facts.loops if x.range and x.range.op.kind == OpKind.STATIC_RANGE}
    return [a for a in found if {*a.node.loops} - {*loop.node.loops} <= walks]


def walked_again(facts: Facts, access: Access, loop: Loop) -> bool:
    """True for elements that a loop inside of one over items walks over, from the same start and at
    the same places for every item."""
    inner = facts.loop(access.loop)
    if not facts.of_threads or inner is None or inner.node.loop is not loop.node:
        return False
    if not facts.types.shape(access.value) or loop.induction is None or inner.low is None:
        return False
    step = facts.values.expr(inner.induction).atom if inner.induction else None
    moved = {facts.values.expr(c.argument).atom for c in loop.carried}
    moved.add(facts.values.expr(loop.induction).atom)
    atoms = [a for e in (*access.index, facts.values.expr(inner.low)) for a in e.atoms()]
    return step in atoms and not any(a in moved or _made_in(facts, a, loop) for a in atoms)


def _made_in(facts: Facts, atom: Atom, loop: Loop) -> bool:
    """Whether an unknown number is loaded or computed inside of a loop."""
    if atom.kind in _COUNTED or atom.kind in (AtomKind.LANE, AtomKind.PARAMETER):
        return False
    made = facts.graph.producer(atom.value)
    return made is not None and made.inside(loop.node)
