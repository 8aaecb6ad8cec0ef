"""Numbers with a fraction as C++ spells them."""

from __future__ import annotations


def floating(digits: str) -> float:
    """The number; infinity where it is too large."""
    try:
        return float.fromhex(digits) if digits[:2].lower() == "0x" else float(digits)
    except (ValueError, OverflowError):
        return float("inf")
