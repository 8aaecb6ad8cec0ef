"""Where a number is held between a lower and an upper bound."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.ir import Literal
from kb.ops import OpKind

_LOOKS = VIEWS | CASTS
_CLAMPS = frozenset({OpKind.MINIMUM, OpKind.MAXIMUM})


def clamps(facts: Facts) -> Iterable[tuple[Node, Node, str, str]]:
    """A minimum of a maximum or the other way round, outer and inner node with the two bounds; or
    the one operation that has both."""
    for outer in facts.graph.of(*_CLAMPS, OpKind.CLAMP):
        for inner, low, high in _inside(facts, outer):
            yield outer, inner, low, high


def _inside(facts: Facts, outer: Node) -> Iterable[tuple[Node, str, str]]:
    """The opposite clamp below one, with the bounds of both; or the one that has two."""
    if outer.op.kind == OpKind.CLAMP:
        low, high = outer.op.operand("low"), outer.op.operand("high")
        if low is not None and high is not None:
            yield outer, low, high
        return
    sides = outer.op.inputs[:2]
    for this, bound in (sides, sides[::-1]):
        inner = facts.graph.producer(facts.graph.through(this, _LOOKS))
        if inner is not None and {inner.kind, outer.kind} == _CLAMPS:
            for other in inner.op.inputs[:2]:
                yield inner, bound, other


def opposite(facts: Facts, one: str, other: str) -> bool:
    """Numbers of one size and different signs, on each side of a branch; or one value is the
    other's negative."""
    pairs = list(zip(*(_written(facts, v) for v in (one, other)), strict=False))
    if pairs and all(isinstance(x, int | float) for pair in pairs for x in pair):
        ordered = [sorted(float(str(x)) for x in pair) for pair in pairs]
        return all(below < 0 < above and above <= -below <= above + 1 for below, above in ordered)
    for this, that in ((one, other), (other, one)):
        made = facts.graph.producer(facts.graph.through(this, _LOOKS))
        if made is not None and made.op.kind == OpKind.NEG:
            cores = (facts.graph.core(made.op.inputs[0]), facts.graph.core(that))
            return cores[0] == cores[1] or _same_member(facts, *cores)
    return False


def _same_member(facts: Facts, one: str | None, other: str | None) -> bool:
    """Whether two values are one member of one type, such as its largest number."""
    made = [facts.graph.producer(value) for value in (one, other) if value]
    members = [
        (node.op.inputs, node.op.attribute("name"))
        for node in made
        if node is not None and node.op.kind == OpKind.ATTRIBUTE
    ]
    return len(members) == 2 and members[0] == members[1]


def _written(facts: Facts, bound: str) -> list[Literal | None]:
    """The number that a bound is; the one that each side of a branch gives, where it gives any."""
    sides = facts.graph.ends(bound, _LOOKS) if facts.graph.kind_of(bound) == OpKind.IF else []
    given = [n.result for n in sides if n.op.kind != OpKind.UNDEF]
    return [facts.values.literal(v) for v in given or [bound]]
