"""Whether loads go along a row with a loop, chunk by chunk."""

from __future__ import annotations

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.rounds import goes_along, steps_of
from kb.analysis.symbolic import ONE, ZERO, AtomKind, Expr, Term, mul, of, sub
from kb.ops import READS, REDUCTIONS, OpKind

_GIVEN = AtomKind.PARAMETER


def chunked(facts: Facts, access: Access) -> bool:
    """True when the lanes of a load, or its tiles, move with a loop over the row."""
    for loop in facts.loops:
        if loop in facts.item_loops or not access.node.inside(loop.node):
            continue
        for step, by in steps_of(facts, loop):
            rows = [e for e in access.index if e.has(AtomKind.LANE) and step in {*e.atoms()}]
            own = step.kind is not AtomKind.COUNT or loop.induction is None
            if any(own or goes_along(e, step, by) for e in rows):
                return True
            if any(step in {*e.atoms()} for e in _tiles(access)):
                return True
    return False


def _tiles(access: Access) -> list[Expr]:
    """The numbers of a tile along the axes in which it has more than one element."""
    shape = access.shape
    if access.mode is not Mode.TILE or len(shape) != len(access.index):
        return []
    return [e for extent, e in zip(shape, access.index, strict=True) if extent != "1"]


def along(facts: Facts, access: Access) -> bool:
    """True when every round of the loop takes the lanes, or the tile along the last axis, that
    follow those of the last one."""
    loop = facts.loop(access.loop)
    if loop is None or loop in facts.item_loops or loop.induction is None:
        return False
    step = facts.values.expr(loop.induction).atom
    by = facts.values.expr(loop.step) if loop.step is not None else ONE
    lanes = [e for e in access.index if e.has(AtomKind.LANE)]
    if step is None:
        return False
    next_tile = any(e.coefficient(step) == ONE == by for e in _tiles(access)[-1:])
    return next_tile or any(goes_along(e, step, by) for e in lanes)


def passes(facts: Facts) -> dict[str, list[Access]]:
    """Arrays that several loops read chunk by chunk; or that one loop writes so, and others read,
    with what the first one read for it."""
    found: dict[str, list[Access]] = {}
    for access in facts.loads:
        if access.array is not None and chunked(facts, access):
            found.setdefault(access.array, []).append(access)
    for store in facts.stores:
        again = found.get(store.array or "", [])
        later = [a for a in again if a.node.index > store.node.index and a.loop != store.loop]
        if later and len(later) == len(again) and chunked(facts, store):
            first = [a for a in facts.feeding(store.value) if a.loop is store.loop]
            found[store.array or ""] = [*first, *again]
    apart = {array: _side_by_side(_one_part(facts, loads)) for array, loads in found.items()}
    return {array: loads for array, loads in apart.items() if sweeps(facts, loads) > 1}


def sweeps(facts: Facts, loads: list[Access]) -> int:
    """How often loads go along a row, on one way through the branches: their loops, but for those
    that go on where another one of them ended."""
    firsts: dict[Node, Access] = {}
    for access in loads:
        if access.loop is not None:
            firsts.setdefault(access.loop, access)
    heads = [a for a in firsts.values() if not any(goes_on(facts, b, a) for b in firsts.values())]
    return max((len(_way_with(one, heads)) for one in heads), default=0)


def _way_with(access: Access, others: list[Access]) -> list[Access]:
    """A load with those of others that may run beside it."""
    kept = [access]
    for other in others:
        if other is not access and not any(_apart(other.node, one.node) for one in kept):
            kept.append(other)
    return kept


def _apart(one: Node, other: Node) -> bool:
    """Whether only one of two runs: they stand on two sides of a branch, or the side of one leaves
    the kernel before the other."""
    return one.excludes(other) or _left_by(one, other) or _left_by(other, one)


def _left_by(one: Node, other: Node) -> bool:
    """Whether a side of a branch with one in it ends by leaving, and the other stands behind."""
    sides = ((n.parent, n.branch) for n in (one, *one.around()) if n.parent is not None)
    return any(
        branch.op.kind == OpKind.IF
        and branch.last < other.index
        and (end := branch.op.regions[side].terminator) is not None
        and end.kind == OpKind.RETURN
        for branch, side in sides
    )


def goes_on(facts: Facts, access: Access, other: Access) -> bool:
    """Whether the loop of another load goes on where that of a load ends."""
    loop, after = facts.loop(access.loop), facts.loop(other.loop)
    if loop is None or after is None or loop is after or after.low is None or loop.high is None:
        return False
    return facts.values.expr(loop.high) == facts.values.expr(after.low)


def comes_after(facts: Facts, access: Access, other: Access) -> bool:
    """Whether a load beside the loop of another one takes the tile of the round after its last."""
    loop = facts.loop(access.loop)
    step = facts.values.expr(loop.induction).atom if loop and loop.induction else None
    if loop is None or step is None or loop.high is None or other.node.inside(loop.node):
        return False
    rest = sub(facts.values.expr(loop.high), of(step))
    moved = False
    for mine, theirs in zip(access.index, other.index, strict=False):
        by = mine.coefficient(step)
        if sub(theirs, mine) != (ZERO if by is None else mul(by, rest)):
            return False
        moved = moved or by not in (None, ZERO)
    return moved and len(access.index) == len(other.index)


def _one_part(facts: Facts, loads: list[Access]) -> list[Access]:
    """Those of loads that lie in one part of an array, of which most loops read: what begins a
    parameter further on, as values do behind keys, is another row; unless a loop goes down from
    there."""
    parts: dict[tuple[Term, ...], list[Access]] = {}
    down = [access for access in loads if way(facts, access) < 0]
    for access in (one for one in loads if one not in down):
        terms = (term for index in access.index for term in index.terms)
        part = [one for one in terms if one[0] and all(a.kind is _GIVEN for a in one[0])]
        parts.setdefault(tuple(part), []).append(access)
    most = max(parts.values(), key=lambda held: len({a.loop for a in held}), default=[])
    return [access for access in loads if access in most or access in down]


def way(facts: Facts, access: Access) -> int:
    """1 for a load that a loop moves on, -1 for one that it moves back, 0 where that is unknown."""
    loop = facts.loop(access.loop)
    step = facts.values.expr(loop.induction).atom if loop and loop.induction else None
    if loop is None or step is None:
        return 0
    down = loop.step is not None and all(n < 0 for _, n in facts.values.expr(loop.step).terms)
    ways = {(n > 0) != down for e in access.index for factors, n in e.terms if step in factors}
    return (1 if ways == {True} else -1) if len(ways) == 1 else 0


def _side_by_side(loads: list[Access]) -> list[Access]:
    """Those of loads whose loop holds no other one of theirs."""
    loops = {a.loop for a in loads if a.loop is not None}
    return [a for a in loads if not any(one.inside(a.loop) for one in loops if a.loop)]


def of_rounds(facts: Facts, store: Access) -> bool:
    """Whether a store puts a number per round of a loop into an array that is read again."""
    moved = any(i.has(AtomKind.INDUCTION, AtomKind.COUNT) for i in store.index)
    return moved and any(a.array == store.array for a in facts.loads)


def summary(node: Node) -> bool:
    """What a load is no longer seen through: what is read, or reduced, from it."""
    return node.op.kind in REDUCTIONS or node.op.kind in READS
