"""Names of the types of elements: which are numbers with a point, and which may be several."""

from __future__ import annotations

from collections.abc import Iterable

_FLOATS = ("f", "bf", "tf")
_OF_ARRAY = "dtypeof"
"""How the type of the elements of an array begins that only a launch tells."""
_OR = "|"


def is_float(dtype: str) -> bool:
    """True for `f32`, `bf16` and the like: a type of floating-point numbers."""
    return dtype.startswith(_FLOATS)


def may_be_float(dtype: str) -> bool:
    """True for such a type, and for one that only a launch tells."""
    return dtype.startswith((*_FLOATS, _OF_ARRAY))


def either(dtypes: Iterable[str]) -> str:
    """The type that may be any of some: `dtypeof(x)|f32`, in an order of its own."""
    return _OR.join(sorted({part for dtype in dtypes for part in dtype.split(_OR)}))


def parts(dtype: str) -> set[str]:
    """The types that a type may be."""
    return {*dtype.split(_OR)}
