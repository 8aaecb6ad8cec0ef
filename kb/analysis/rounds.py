"""Rounds of a loop that are all checked: the last one may reach past an extent."""

from __future__ import annotations

from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.loops import Carried, Loop, Role
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr, mul, scale, sub
from kb.ops import COMPARISONS, OpKind

_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)


def checked_in(facts: Facts, loop: Loop) -> list[Node]:
    """What keeps the accesses of a counted loop inside their arrays in every round: comparisons of
    the positions that the rounds go along, and gathers and scatters there whose bounds are
    checked."""
    steps = steps_of(facts, loop)
    found: list[Node] = []
    for access in facts.accesses if steps else ():
        if not access.node.inside(loop.node):
            continue
        for test in comparisons(facts, access.mask):
            apart = sub(*sides(facts, test)) if test.op.kind in _ORDERED else None
            if apart is not None and any(goes_along(apart, *step) for step in steps):
                found.append(test)
        if access.mode is Mode.ELEMENT and access.mask is None and facts.checked(access):
            if any(_bare(e, s) and goes_along(e, s, by) for e in access.index for s, by in steps):
                found.append(access.node)
    return list(dict.fromkeys(found))


def steps_of(facts: Facts, loop: Loop) -> list[tuple[Atom, Expr]]:
    """What counts the rounds of a loop over a range, with how much it grows in each: the loop's own
    variable, or the number of rounds in what is carried from one to the next."""
    if loop.induction is None:
        atoms = (a for c in tested(loop) for a in facts.values.expr(c.argument).top())
        own = loop.node.result
        return [(a, ONE) for a in atoms if a.kind is AtomKind.COUNT and a.value == own]
    by = facts.values.expr(loop.step) if loop.step is not None else ONE
    step = facts.values.expr(loop.induction).atom
    carried = [facts.values.expr(c.argument) for c in loop.of(Role.COUNTER)]
    counts = {atom: ONE for e in carried for atom in e.top() if atom.kind is AtomKind.COUNT}
    return [*([(step, by)] if step is not None else []), *counts.items()]


_COUNTED = CASTS | COPIES | {OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FLOOR_DIV}
"""Steps from a number that counts to what a test compares."""


def tested(loop: Loop) -> list[Carried]:
    """Carried numbers of a loop without a range that its test compares, perhaps with something
    added or times so many, and that grow by the same in every round: what it counts by."""
    if loop.node.op.kind != OpKind.WHILE:
        return []
    test = loop.node.op.regions[0]
    asked: set[str] = set()
    for op in reversed(test.ops):
        if op.kind in COMPARISONS or (op.kind in _COUNTED and op.results[0].name in asked):
            asked.update(op.inputs)
    own = zip(test.arguments, loop.carried, strict=False)
    return [c for a, c in own if a.name in asked and c.role is Role.COUNTER]


def _bare(position: Expr, step: Atom) -> bool:
    """A position along one axis, not the place of a row in a flat array."""
    return position.has(AtomKind.LANE) and all(
        atom == step or atom.kind in (AtomKind.LANE, AtomKind.PARAMETER) for atom in position.top()
    )


def goes_along(position: Expr, step: Atom, by: Expr) -> bool:
    """True when a position goes on by as many lanes as it has from one round to the next; without
    lanes, by one."""
    each = mul(position.coefficient(step), by)
    if each is None or not each.terms:
        return False
    lanes = [a for a in position.top() if a.kind is AtomKind.LANE]
    if not lanes:
        return each.constant in (1, -1)
    tiles = [mul(lane.args[0], position.coefficient(lane)) for lane in lanes]
    return any(tile is not None and each in (tile, scale(tile, -1)) for tile in tiles)
