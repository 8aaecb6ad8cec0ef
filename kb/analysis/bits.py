"""Bits of whole numbers as arithmetic: what is left of a division, whole multiples."""

from __future__ import annotations

from kb.analysis import symbolic as s
from kb.analysis.symbolic import Expr


def masked(left: Expr, right: Expr) -> Expr | None:
    """`x & (2^k - 1)` is what is left of a division by `2^k`, `x & -2^k` the multiple below; None
    for other masks."""
    for value, mask in ((left, right.constant), (right, left.constant)):
        if mask is not None and mask > 0 and not (mask + 1) & mask and value.constant is None:
            return s.mod(value, s.number(mask + 1))
        if mask is not None and mask < 0 and not -mask & (-mask - 1) and value.constant is None:
            return s.sub(value, s.mod(value, s.number(-mask)))
    return None
