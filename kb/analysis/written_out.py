"""Rounds that the source writes out one below the other: accesses of one array that lie constants
apart, and blocks that run where a compile-time extent reaches them; and loops of so many rounds."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import sub
from kb.ops import OpKind

SEVERAL = 3
"""Tiles of one array that make rounds of what might be a pair."""

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
