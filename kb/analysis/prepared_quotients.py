"""Whole numbers divided by a divisor that the host has prepared."""

from __future__ import annotations

import re

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.record_fields import field_of
from kb.ops import OpKind

_OPEN = "?"
_QUOTIENTS = (OpKind.DIV, OpKind.MOD, OpKind.FLOOR_DIV)
_NUMBER = re.compile(r"(i|u|f|bf|tf)\d+\w*( .*)?|dtypeof\(.*")


def prepared_quotients(facts: Facts) -> list[Node]:
    """Quotients and remainders by prepared divisors that address memory or split another one; by an
    argument of a class of its own, whatever they are for."""
    parts = [n for n in facts.graph.of(*_QUOTIENTS) if _made(facts, n)]
    for high in facts.graph.of(OpKind.UMULHI):
        parts += _shifted(facts, high)
    if not parts:
        return []
    places = [v for a in facts.accesses for v in a.address]
    own = facts.graph.function.parameter_names
    return [
        n
        for n in parts
        if (n.op.kind in _QUOTIENTS and facts.graph.through(n.op.inputs[1], COPIES) in own)
        or any(facts.graph.rests_on(v, n) for v in places)
    ]


def _made(facts: Facts, node: Node) -> bool:
    """A whole number over an argument of a class of its own; or over a field of one, when that
    field has no known type and the quotient is kept as a whole number."""
    over, under = (facts.graph.through(v, COPIES) or v for v in node.op.inputs[:2])
    if not facts.types.dtype(over).startswith(("i", "u")):
        return False
    kind = facts.types.dtype(under)
    if under in facts.graph.function.parameter_names:
        return under not in facts.constexprs and not _number(kind) and kind != _OPEN
    field = _nested(facts, under) or _beside(facts, node, under) or _among_numbers(facts, under)
    return kind == _OPEN and field and _taken_whole(facts, node)


def _nested(facts: Facts, value: str) -> bool:
    """Whether a value is a field of a field of an argument."""
    depth, made = 0, facts.graph.producer(value)
    while made is not None and made.op.kind == OpKind.ATTRIBUTE:
        value, depth = made.op.inputs[0], depth + 1
        made = facts.graph.producer(value)
    held = value in facts.graph.arguments or value in facts.graph.function.parameter_names
    return depth > 1 and held and value not in facts.constexprs


def _beside(facts: Facts, node: Node, under: str) -> bool:
    """Whether another field of the same argument multiplies the quotient, as remainders ask."""
    made = facts.graph.producer(under)
    if made is None or made.op.kind != OpKind.ATTRIBUTE or made.op.inputs[0] in facts.constexprs:
        return False
    others = (n for n in facts.graph.of(OpKind.MUL) if facts.graph.rests_on(n.result, node))
    sides = [v for n in others for v in n.op.inputs[:2]]
    fields = (facts.graph.producer(v) for v in sides)
    return any(value.startswith(f"{made.op.inputs[0]}.") for value in sides) or any(
        one is not None and one.op.kind == OpKind.ATTRIBUTE and one.op.inputs == made.op.inputs
        for one in fields
    )


def _among_numbers(facts: Facts, under: str) -> bool:
    """Whether other fields of the same argument have known types: this one's is a class."""
    made = facts.graph.producer(under)
    if made is None or made.op.kind != OpKind.ATTRIBUTE or made.op.inputs[0] in facts.constexprs:
        return False
    others = (n for n in facts.graph.users(made.op.inputs[0]) if n.op.kind == OpKind.ATTRIBUTE)
    names = [n.result for n in others]
    start = f"{made.op.inputs[0]}."
    names += [name for name in facts.graph.function.parameter_names if name.startswith(start)]
    return any(_number(facts.types.dtype(name)) for name in names)


def _number(dtype: str) -> bool:
    return _NUMBER.fullmatch(dtype) is not None


def _taken_whole(facts: Facts, node: Node) -> bool:
    """Whether a quotient is kept as a whole number."""
    casts = [n for n in facts.graph.users(node.result) if n.op.kind in CASTS]
    return any(facts.types.dtype(n.result).startswith(("i", "u")) for n in casts)


def _shifted(facts: Facts, high: Node) -> list[Node]:
    """The upper half of a product with an argument, and its shift by another argument."""
    if not any(_given(facts, v) for v in high.op.inputs[:2]):
        return []
    found, values = list[Node](), [high.result]
    for value in values:
        for user in facts.graph.users(value):
            if user.op.kind == OpKind.SHIFT_RIGHT and _given(facts, user.op.inputs[1]):
                found += [high, user]
            elif user.op.kind in CASTS | COPIES | {OpKind.ADD} and len(values) < 8:
                values.append(user.result)
    return found


def _given(facts: Facts, value: str) -> bool:
    core = facts.graph.core(value)
    return core in facts.graph.function.parameter_names or field_of(facts.graph, core) is not None
