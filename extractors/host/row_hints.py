"""What tells the rows of arguments of several callers apart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowHint:
    """What tells the rows of arguments of several callers apart: how many parameters the kernel
    has, the functions on the way to its launch, and its name, which may stand beside the row."""

    size: int = 0
    stack: tuple[str, ...] = ()
    kernel: str = ""


NO_HINT = RowHint()
