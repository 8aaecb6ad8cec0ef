"""How tightly operators between two operands bind. Source: ISO C++, expressions."""

from __future__ import annotations

from collections.abc import Sequence

from extractors.cuda import nodes as n

WORDS = {"and": "&&", "or": "||"}
"""Operators that may be spelled as words."""

_LOOSE_FIRST = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<=>",),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_BINDS = {operator: rank for rank, row in enumerate(_LOOSE_FIRST) for operator in row}


def bound(at: n.Place, operands: Sequence[n.Expr], operators: Sequence[str]) -> n.Expr:
    """The operands joined as tightly as their operators bind, equal ones from the left."""
    held, waiting = [operands[0]], list[str]()
    for operator, operand in zip([*operators, ""], [*operands[1:], None], strict=True):
        rank = _BINDS.get(operator, -1)
        while waiting and _BINDS.get(waiting[-1], -1) >= rank:
            right, left = held.pop(), held.pop()
            held.append(n.Binary(at, waiting.pop(), left, right))
        if operand is not None:
            waiting.append(operator)
            held.append(operand)
    return held[0]
