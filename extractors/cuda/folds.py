"""Whole numbers that operators of C++ give of whole numbers."""

from __future__ import annotations

from collections.abc import Callable

from extractors.cuda.values import Val

FOLDS: dict[str, Callable[[int, int], int | bool]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: int(a / b) if abs(a) < 2**53 else a // b, "%": lambda a, b: a % b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "<<": lambda a, b: a << min(max(b, 0), 64), ">>": lambda a, b: a >> min(max(b, 0), 64),
    "&": lambda a, b: a & b, "|": lambda a, b: a | b,
}  # fmt: skip


def computed(operator: str, left: Val, right: Val) -> int | bool | None:
    """The number that two whole numbers give; None when that is not sure."""
    if not (isinstance(left.const, int) and isinstance(right.const, int)):
        return None
    return fold(operator, left.const, right.const)


def fold(operator: str, left: int | None, right: int | None) -> int | bool | None:
    """The same of plain numbers, of which either may not be known."""
    if left is None or right is None or operator not in FOLDS or (operator in "/%" and not right):
        return None
    found = FOLDS[operator](left, right)
    return found if abs(found) < 2**64 else None
