"""Numbers that are kept from zero by a lower bound before something is divided by them, or before
their root, logarithm or exponent is taken."""

from __future__ import annotations

from dataclasses import dataclass

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, VIEWS, Node
from kb.ops import COMPARISONS, READS, OpKind

_LOOKS = VIEWS | CASTS
_SCALED = frozenset({OpKind.MUL, OpKind.DIV})
_ROOTS = frozenset({OpKind.LOG, OpKind.LOG2, OpKind.RSQRT})
_ABOVE = frozenset({OpKind.GT, OpKind.GE})
_BELOW = frozenset({OpKind.LT, OpKind.LE})
_REACH = 12
"""Values looked at between the bound and what takes it."""


@dataclass(frozen=True, slots=True)
class Floor:
    """`node` bounds or shifts the value `bounded`; `number` is the bound, None when a parameter
    gives it; `taken` divides by the result, perhaps scaled, or takes its root or logarithm."""

    node: Node
    bounded: str
    number: float | None
    taken: Node


def floors(facts: Facts, kind: str = OpKind.MAXIMUM) -> list[Floor]:
    """Operations of a kind between a computed or loaded value and a number that no memory holds,
    whose result is taken as a divisor, for its exponent, or by a root or logarithm; a clamp from
    below is a maximum."""
    found = []
    bounds = (OpKind.CLAMP, OpKind.SELECT) if kind == OpKind.MAXIMUM else ()
    for node in facts.graph.of(kind, *bounds):
        for bounded, low in _sides(facts, node):
            number = _number(facts, low)
            handed = _filling(facts, low) in facts.graph.function.parameter_names
            if not (handed or number is not None) or not facts.feeding(bounded):
                continue
            taken = _taken(facts, node.result)
            if taken is not None:
                found.append(Floor(node, bounded, number, taken))
    return found


def _sides(facts: Facts, node: Node) -> list[tuple[str, str]]:
    """What an operation bounds, and by what; of a choice, where it is the larger of the two."""
    if node.op.kind == OpKind.CLAMP:
        return [(node.op.operand("x") or "", node.op.operand("low") or "")]
    if node.op.kind != OpKind.SELECT:
        return [(a, b) for a, b in (node.op.inputs[:2], node.op.inputs[1::-1])]
    test = facts.graph.producer(node.op.operand("condition") or "")
    if test is None or test.op.kind not in _ABOVE | _BELOW:
        return []
    over, under = test.op.inputs[:2] if test.op.kind in _ABOVE else test.op.inputs[1::-1]
    kept, other = (_alike(facts, node.op.operand(side)) for side in ("x", "y"))
    larger = (kept, other) == (_alike(facts, over), _alike(facts, under))
    return [(over, under), (under, over)] if larger else []


def _alike(facts: Facts, value: str | None) -> str | float | None:
    """A number that is written down, or what a value is."""
    number = _number(facts, value or "")
    return number if number is not None else facts.graph.core(value)


def counts(facts: Facts, value: str) -> bool:
    """True for a sum of what a comparison said of each element."""
    made = facts.graph.producer(facts.graph.core(value))
    if made is None:
        return False
    carried = made.op.kind in LOOPS
    sums = facts.graph.roots(value, OpKind.REDUCE_SUM) if carried else [made]
    return any(n.op.kind == OpKind.REDUCE_SUM and _compared(facts, n.op.inputs[0]) for n in sums)


def _compared(facts: Facts, value: str) -> bool:
    """True for a comparison, cast or masked."""
    pending = [value]
    for current in pending:
        node = facts.graph.producer(facts.graph.core(current))
        if node is not None and node.op.kind in COMPARISONS:
            return True
        if node is not None and node.op.kind == OpKind.BIT_AND and len(pending) < _REACH:
            pending += node.op.inputs[:2]
    return False


def _number(facts: Facts, value: str) -> float | None:
    """The number that a value is, or that a tile is filled with."""
    literal = facts.values.literal(_filling(facts, value))
    return literal if isinstance(literal, int | float) and not isinstance(literal, bool) else None


def _filling(facts: Facts, value: str) -> str | None:
    """What a value is, or what a tile is filled with."""
    core = facts.graph.core(value)
    made = facts.graph.producer(core)
    if made is not None and made.op.kind == OpKind.FULL:
        return facts.graph.core(made.op.operand("value"))
    return core


def _shifted(facts: Facts, bits: Node) -> bool:
    """Whether the exponent is taken out of a number's bits."""
    return any(n.op.kind == OpKind.SHIFT_RIGHT for n in facts.graph.users(bits.result))


def _taken(facts: Facts, value: str) -> Node | None:
    pending = [value]
    for current in pending:
        for user in facts.graph.users(current):
            kind = user.op.kind
            if kind == OpKind.YIELD and user.parent is not None:
                if user.parent.op.kind not in LOOPS and len(pending) < _REACH:
                    pending += facts.graph.onward(user, current)
                continue
            if kind in _ROOTS or (kind == OpKind.DIV and user.op.inputs[1] == current):
                return user
            if kind == OpKind.BITCAST and _shifted(facts, user):
                return user
            others = [v for v in user.op.inputs[:2] if v != current]
            scaled = kind in _SCALED and not any(
                n.op.kind in READS for v in others for n in facts.graph.upstream(v)
            )
            if (kind in _LOOKS or scaled) and len(pending) < _REACH:
                pending.append(user.result)
    return None
