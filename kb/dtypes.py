"""Which types of elements are numbers with a point."""

from __future__ import annotations

_FLOATS = ("f", "bf", "tf")
_OF_ARRAY = "dtypeof"
"""How the type of the elements of an array begins that only a launch tells."""


def is_float(dtype: str) -> bool:
    """True for `f32`, `bf16` and the like: a type of floating-point numbers."""
    return dtype.startswith(_FLOATS)


def may_be_float(dtype: str) -> bool:
    """True for such a type, and for one that only a launch tells."""
    return dtype.startswith((*_FLOATS, _OF_ARRAY))
