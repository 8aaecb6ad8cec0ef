"""Blocks that each take a part of the items, of a size that is passed: the parts cover them all."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis import symbolic as s
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ops import OpKind
from kb.space import Constraint, implied

_SIZES = (AtomKind.PARAMETER, AtomKind.EXTENT)
_Part = tuple[Atom, Atom]
"""A block, and how many items it takes."""


def covered_parts(facts: Facts) -> Iterator[Constraint]:
    """The part of a block ends where the part of the next one begins, or where the items end: told
    where the two ends meet, in a minimum, in the comparisons of one place or in a loop over the
    part."""
    told: set[str] = set()
    for node, (block, part), items in (*_least(facts), *_both(facts), *_walked(facts)):
        text = f"grid[{block.axis}] * {part.text} >= {items.text}"
        if part != items and text not in told:
            told.add(text)
            yield implied(
                text,
                f"each block takes {part.text} items from its own first one; nobody takes what "
                "lies behind the last part",
                "launch as many blocks as there are parts, the last one cut",
                node.lines,
            )


def _least(facts: Facts) -> Iterator[tuple[Node, _Part, Atom]]:
    """Minima of the end of a part and of how many items there are."""
    for node in facts.graph.of(OpKind.MINIMUM):
        left, right = (facts.values.expr(value) for value in node.op.inputs[:2])
        for end, other in ((left, right), (right, left)):
            part, items = _end(end), other.atom
            if part is not None and items is not None and items.kind in _SIZES:
                if _from_begin(facts, facts.values.expr(node.result), part):
                    yield node, part, items


def _from_begin(facts: Facts, least: Expr, part: _Part) -> bool:
    """Whether a loop goes from where the part begins to its end, or the two are told apart."""
    begin, end = _begin(part), least.atom
    if end is None:
        return False
    for node in facts.graph.of(OpKind.SUB):
        if [facts.values.expr(value) for value in node.op.inputs[:2]] == [least, begin]:
            return True
    return any(
        loop.low is not None
        and loop.high is not None
        and facts.values.expr(loop.low) == begin
        and end in facts.values.expr(loop.high).atoms()
        for loop in facts.loops
    )


def _begin(part: _Part) -> Expr:
    """Where the part of a block begins."""
    return s.mul(s.of(part[0]), s.of(part[1])) or s.ZERO


def _both(facts: Facts) -> Iterator[tuple[Node, _Part, Atom]]:
    """Places that are compared with both."""
    seen: dict[Expr, list[tuple[Node, Expr]]] = {}
    for node in facts.graph.of(OpKind.LT):
        left, right = (facts.values.expr(value) for value in node.op.inputs[:2])
        seen.setdefault(left, []).append((node, right))
    for place, rows in seen.items():
        parts = [(node, part) for node, right in rows if (part := _end(right)) is not None]
        items = [one for _, right in rows if (one := right.atom) and one.kind in _SIZES]
        if parts and items and _inside(facts, place, parts[0][1]):
            yield parts[0][0], parts[0][1], items[0]


def _inside(facts: Facts, place: Expr, part: _Part) -> bool:
    """Whether a place is one of the part: the begin and something more, or what a loop goes on
    from there with."""
    begin = _begin(part)
    if set(begin.terms) < set(place.terms):
        return True
    values = facts.values
    return any(
        values.expr(argument.name) == place and values.expr(init) == begin
        for loop in facts.loops
        if loop.node.op.kind == OpKind.WHILE
        for region in loop.node.op.regions
        for argument, init in zip(region.arguments, facts.graph.inits(loop.node), strict=False)
    )


def _walked(facts: Facts) -> Iterator[tuple[Node, _Part, Atom]]:
    """Loops over the items of a part, each of which is compared with how many there are."""
    for loop in facts.loops:
        for part, place in _places(facts, loop):
            for node in facts.graph.of(OpKind.LT, OpKind.GE):
                left, right = (facts.values.expr(value) for value in node.op.inputs[:2])
                if left == place and right.atom is not None and right.atom.kind in _SIZES:
                    yield loop.node, part, right.atom


def _places(facts: Facts, loop: Loop) -> Iterator[tuple[_Part, Expr]]:
    """The part that a loop goes over, and the place of an item in it."""
    if loop.high is None or loop.induction is None:
        return
    low = facts.values.expr(loop.low) if loop.low is not None else s.ZERO
    high, count = facts.values.expr(loop.high), facts.values.expr(loop.induction)
    part = _end(high)
    if part is not None and high == s.add(low, s.of(part[1])):
        yield part, count
    size = high.atom
    if low.constant == 0 and size is not None and size.kind in _SIZES:
        for axis in range(3):
            block = Atom(f"block({axis})", AtomKind.BLOCK)
            yield (block, size), s.add(_begin((block, size)), count)


def _end(end: Expr) -> _Part | None:
    """The block and the size whose part ends there: one more than the number of the block, times
    the size."""
    if len(end.terms) != 2 or any(number != 1 for _, number in end.terms):
        return None
    short, long = sorted((factors for factors, _ in end.terms), key=len)
    if len(short) != 1 or len(long) != 2 or short[0] not in long or short[0].kind not in _SIZES:
        return None
    block = next(one for one in long if one != short[0]) if long[0] != long[1] else long[0]
    return (block, short[0]) if block.kind is AtomKind.BLOCK else None
