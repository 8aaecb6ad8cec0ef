"""Where a float of 32 bits is taken apart or put together by its bits: exponents without a
logarithm, powers of two without an exponential."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.dtypes import is_float
from kb.ops import OpKind

_MANTISSA = 23
"""Bits below the exponent of a 32-bit float. Source: IEEE 754."""
_BELOW = (1 << _MANTISSA) - 1
_LOOKS = VIEWS | CASTS
_SHIFTS = frozenset({OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT})
_MASKED = frozenset({OpKind.BIT_AND})
_BOUNDS = frozenset({OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.CLAMP, OpKind.SELECT})
_MOVED = frozenset({OpKind.ADD, OpKind.SUB, OpKind.BIT_OR, OpKind.IF, OpKind.IF_EXPRESSION})
_REACH = 16


def exponents_taken(facts: Facts) -> list[tuple[Node, Node]]:
    """Casts that keep the bits, each with the shift by which the exponent is taken out; not where
    the bits below it are taken, too, to make another number of both, which is rounded so."""
    return [
        (seen, shift)
        for shift in facts.graph.of(OpKind.SHIFT_RIGHT)
        if _by_mantissa(facts, shift) and (seen := _seen_as_bits(facts, shift.op.inputs[0]))
        if not _rounded(facts, seen, shift)
    ]


def _rounded(facts: Facts, seen: Node, shift: Node) -> bool:
    """Whether the exponent and the bits below it, moved, are joined again."""
    below = [
        n
        for n in facts.graph.of(OpKind.BIT_AND)
        if facts.number(n.op.inputs[1]) == _BELOW and facts.graph.rests_on(n.op.inputs[0], seen)
    ]
    steps = _LOOKS | _MASKED | _MOVED | _BOUNDS | _SHIFTS

    def apart(node: Node) -> bool:
        return node.op.kind not in steps

    return bool(below) and any(
        facts.graph.made_from([one], (shift,), apart)
        and facts.graph.made_from([other], below, apart)
        for n in facts.graph.of(OpKind.BIT_OR)
        for one, other in (n.op.inputs[:2], n.op.inputs[1::-1])
    )


def powers_made(facts: Facts) -> list[tuple[Node, Node]]:
    """Shifts of a whole number to the place of an exponent, each with the cast that keeps its bits
    and makes a float of it."""
    return [
        (shift, seen)
        for shift in facts.graph.of(OpKind.SHIFT_LEFT)
        if _by_mantissa(facts, shift)
        for seen in _made_floats(facts, shift)
    ]


def bounds_of_exponents(facts: Facts) -> list[Node]:
    """Lower bounds of an exponent between its shift out of one float and into another, or into a
    store."""
    taken = [shift for _, shift in exponents_taken(facts)]
    return [
        n
        for n in facts.graph.of(OpKind.MAXIMUM, OpKind.CLAMP)
        if any(_exponent(facts, v, shift) for v in n.op.inputs for shift in taken)
    ]


def _exponent(facts: Facts, value: str, shift: Node) -> bool:
    """Whether a value is an exponent, perhaps moved or bounded on its way."""
    steps = _LOOKS | _MASKED | _BOUNDS | _MOVED
    return bool(facts.graph.made_from([value], (shift,), lambda n: n.op.kind not in steps))


def _by_mantissa(facts: Facts, shift: Node) -> bool:
    return facts.number(shift.op.inputs[1]) == _MANTISSA


def keeps_bits(facts: Facts, node: Node) -> bool:
    """True for a cast that keeps the bits and changes what they mean."""
    if node.op.kind == OpKind.BITCAST:
        return True
    return node.op.kind == OpKind.CAST and facts.values.literal(node.op.operand("bitcast")) is True


def _seen_as_bits(facts: Facts, value: str) -> Node | None:
    """The cast that made a word of a float, below casts of the word and a mask."""
    pending = [value]
    for current in pending:
        node = facts.graph.producer(current)
        if node is None or len(pending) > _REACH:
            continue
        if keeps_bits(facts, node):
            return None if is_float(facts.types.named(node.op.operand("dtype"))) else node
        if node.op.kind in _LOOKS | _MASKED | {OpKind.ADD}:
            pending += node.op.inputs[: 2 if node.op.kind not in _LOOKS else 1]
    return None


def _made_floats(facts: Facts, shift: Node) -> Iterator[Node]:
    """The casts that make a float of a shifted whole number."""
    pending = [shift.result]
    for current in pending:
        for user in facts.graph.users(current):
            if keeps_bits(facts, user):
                if facts.types.named(user.op.operand("dtype")) == "f32":
                    yield user
            elif user.op.kind in _LOOKS | {OpKind.BIT_OR} and len(pending) < _REACH:
                pending.append(user.result)
