"""Bits of whole numbers as arithmetic: what is left of a division, whole multiples."""

from __future__ import annotations

from kb.analysis import symbolic as s
from kb.analysis.symbolic import AtomKind, Expr


def masked(left: Expr, right: Expr) -> Expr | None:
    """`x & (2^k - 1)` is what is left of a division by `2^k`, `x & -2^k` the multiple below; None
    for other masks."""
    for value, mask in ((left, right.constant), (right, left.constant)):
        if mask is not None and mask > 0 and not (mask + 1) & mask and value.constant is None:
            return s.mod(value, s.number(mask + 1))
        if mask is not None and mask < 0 and not -mask & (-mask - 1) and value.constant is None:
            return s.sub(value, s.mod(value, s.number(-mask)))
    return None


def together(left: Expr, right: Expr) -> Expr | None:
    """`x | y` is their sum where no bit stands in both: one is a multiple of a power of two, the
    other below it; None for other values."""
    for high, low in ((left, right), (right, left)):
        most = _most(low)
        step = 1 << most.bit_length() if most is not None else 0
        if most is not None and all(number % step == 0 for _, number in high.terms):
            return s.add(left, right)
    return None


def _most(value: Expr) -> int | None:
    """The most that a sum of rests by constants can be; None for others."""
    found = 0
    for factors, number in value.terms:
        if number < 0 or len(factors) > 1:
            return None
        limit = 1
        if factors:
            atom = factors[0]
            by = atom.args[1].constant if atom.kind is AtomKind.MOD else None
            if by is None or by < 1:
                return None
            limit = by - 1
        found += number * limit
    return found
