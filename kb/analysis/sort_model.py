"""Sorts: what a value certainly is. Kind, dtype and extents, and what two ways to a value share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What sort of thing a value certainly is."""

    BOOL = "a truth value"
    INT = "an integer"
    FLOAT = "a float"
    NUMBER = "a number"
    MEMORY = "an array or pointer"
    TUPLE = "a tuple"
    DTYPE = "a dtype"
    ENUM = "a named constant"
    FUNCTION = "a function"
    TEXT = "a string"
    NONE = "None"
    OPEN = "not known"


NUMERIC = frozenset({Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.NUMBER})
Shape = tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Sort:
    """`dtype` is empty and `shape` None where they are not certain; a scalar has the shape ()."""

    kind: Kind = Kind.OPEN
    dtype: str = ""
    shape: Shape = None

    @property
    def numeric(self) -> bool:
        """True for tiles and scalars of numbers."""
        return self.kind in NUMERIC

    def __str__(self) -> str:
        extents = f" of [{', '.join(self.shape)}]" if self.shape else ""
        return f"{self.dtype or self.kind}{extents}"


OPEN = Sort()


def dtype_sort(name: str) -> Sort:
    """The sort of a number with a dtype: `f32`, `i8`, `i1`, `bf16`; open for other words."""
    if name == "i1":
        return Sort(Kind.BOOL, name)
    if name[:1] in ("i", "u") and name[1:].isdigit():
        return Sort(Kind.INT, name)
    if name in ("bf16", "tf32") or (name[:1] == "f" and name[1:2].isdigit()):
        return Sort(Kind.FLOAT, name)
    return OPEN


def join(sides: Sequence[Sort]) -> Sort:
    """What holds on every side."""
    first = sides[0]
    if all(side == first for side in sides):
        return first
    kinds = {side.kind for side in sides}
    kind = first.kind if len(kinds) == 1 else Kind.NUMBER if kinds <= NUMERIC else Kind.OPEN
    dtype = first.dtype if len({side.dtype for side in sides}) == 1 else ""
    shape = first.shape if all(side.shape == first.shape for side in sides) else None
    return Sort(kind, dtype, shape)
