"""Rounds that the source writes out one below the other: accesses of one array that lie constants
apart, and blocks that run where a compile-time extent reaches them; and loops of so many rounds."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.butterflies import butterflies, chained
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import sub
from kb.ops import MIRRORED, OpKind

SEVERAL = 3
"""Tiles of one array that make rounds of what might be a pair."""

MANY = 4
"""Single numbers that make rounds."""

_ORDERED = (OpKind.GT, OpKind.GE, OpKind.LT, OpKind.LE)


def apart_by_constants(facts: Facts) -> list[Access]:
    """Loads of tiles of one array, in one place of the program, that differ by constants alone, at
    three or more places."""
    alike: dict[object, list[Access]] = {}
    for load in facts.loads:
        shape = facts.types.shape(load.value)
        if load.array is not None and load.index and set(shape) - {"1"}:
            key = (load.array, load.node.parent, load.node.branch, shape, len(load.index))
            alike.setdefault(key, []).append(load)
    found: list[Access] = []
    for loads in alike.values():
        places = {_away(load, loads[0]) for load in loads} if len(loads) >= SEVERAL else set()
        if len(places) >= SEVERAL and None not in places:
            found += loads
    return found


def _away(load: Access, first: Access) -> tuple[object, ...] | None:
    """How far a load lies from another one; None when that is not known."""
    away = [sub(a, b).constant for a, b in zip(load.index, first.index, strict=True)]
    return None if None in away else tuple(away)


def blocks_by_extent(facts: Facts) -> list[Node]:
    """Branches on one compile-time extent against different numbers, each with accesses inside."""
    by_extent: dict[str, dict[object, list[Node]]] = {}
    for branch in facts.graph.of(OpKind.IF) if facts.constexprs else ():
        test = facts.graph.producer(branch.op.inputs[0])
        if test is None or test.op.kind not in _ORDERED:
            continue
        extent, number = (facts.values.expr(v) for v in test.op.inputs[:2])
        given = extent.atom is not None and extent.atom.value in facts.constexprs
        held = any(a.node.inside(branch) for a in facts.accesses) if given else False
        if held and extent.atom is not None and number.constant is not None:
            numbers = by_extent.setdefault(extent.atom.value, {})
            numbers.setdefault(number.constant, []).append(branch)
    several = [numbers for numbers in by_extent.values() if len(numbers) > 1]
    return [b for numbers in several for branches in numbers.values() for b in branches]


def counted_rounds(facts: Facts) -> list[Node]:
    """Loops of a kernel of tiles, from a number on, whose rounds are a number that is written out
    or a compile-time parameter; no language promises to unroll them."""
    found: list[Node] = []
    for loop in (one for one in facts.loops if one not in facts.item_loops):
        ends = [facts.values.expr(v) for v in (loop.low, loop.step) if v is not None]
        high = facts.values.expr(loop.high) if loop.high is not None else None
        if loop.range is None or high is None or any(end.constant is None for end in ends):
            continue
        if high.constant is not None or (high.atom and high.atom.value in facts.constexprs):
            found.append(loop.range)
    return found


def numbers_apart(facts: Facts) -> list[Node]:
    """Single numbers from neighbouring places of one array, four or more, each of which the same
    tile is compared with or computed with in the same way, and what does so."""
    users: dict[tuple[object, ...], dict[int, Node]] = {}
    for load in facts.loads:
        if set(facts.types.shape(load.value)) - {"1"} or len(load.index) != 1:
            continue
        place = load.index[0].constant
        if place is None:
            continue
        for user in facts.graph.users(load.value):
            others = tuple(v for v in user.op.inputs[:2] if v != load.value)
            first = user.op.inputs[0] == load.value
            way = MIRRORED.get(user.op.kind, user.op.kind) if first else user.op.kind
            if len(others) == 1 and facts.types.shape(others[0]):
                users.setdefault((load.array, way, others), {})[place] = user
    rows = (by for by in users.values() if len(by) >= MANY)
    return [n for by in rows if max(by) - min(by) == len(by) - 1 for n in by.values()]


def stages_in_a_row(facts: Facts) -> list[Node]:
    """Stages of sums and differences, each of what the last one gave, three or more outside of any
    loop."""
    if not facts.graph.of(OpKind.SUB):
        return []
    stages = [s for s in chained(facts.graph, butterflies(facts.graph)) if not s.meet.loops]
    return [s.meet for s in stages] if len(stages) >= SEVERAL else []


def summed_taps(facts: Facts) -> list[Access | Node]:
    """Loads of one array at three or more neighbours, each a factor of a product, and the sum that
    the products end in."""
    if facts.of_threads or facts.contractions:
        return []
    found: list[Access | Node] = []
    for array in dict.fromkeys(a.array for a in facts.loads if a.array is not None):
        loads = [a for a in facts.loads if a.array == array and _several(facts, a)]
        if len(loads) < 3 or len({a.node.parent for a in loads}) > 1 or not _in_a_row(loads):
            continue
        products = [m for a in loads for m in facts.graph.of(OpKind.MUL) if _factor(facts, m, a)]
        ends = [
            n
            for n in facts.graph.of(OpKind.ADD)
            if len(products) == len(loads)
            and all(facts.graph.rests_on(n.result, m) for m in products)
        ]
        if ends:
            found += [*loads, *products, ends[0]]
    return found


def _several(facts: Facts, access: Access) -> bool:
    return bool(set(facts.types.shape(access.value)) - {"1"})


def _in_a_row(loads: list[Access]) -> bool:
    """Whether the places differ along one axis, each by one from the last."""
    first = loads[0].index
    away = [tuple(sub(x, y).constant for x, y in zip(a.index, first, strict=False)) for a in loads]
    if any(len(a.index) != len(first) for a in loads) or any(None in one for one in away):
        return False
    moved = {at for one in away for at, number in enumerate(one) if number}
    steps = [abs(one[at]) for at in moved for one in away]  # type: ignore[arg-type]
    return len(moved) == 1 and sorted(steps) == [*range(len(loads))]


def _factor(facts: Facts, product: Node, access: Access) -> bool:
    return any(facts.graph.core(v) == access.value for v in product.op.inputs[:2])
