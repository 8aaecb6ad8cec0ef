"""Rows of arguments: what is spread into a call, and what tells those of several callers apart."""

from __future__ import annotations

import ast
from dataclasses import dataclass

Entries = tuple[tuple[str, ast.expr, int], ...]
"""Names, values and first lines of what is spread into a call."""


@dataclass(frozen=True, slots=True)
class RowHint:
    """What tells the rows of arguments of several callers apart: how many parameters the kernel
    has, the functions on the way to its launch, and its name, which may stand beside the row."""

    size: int = 0
    stack: tuple[str, ...] = ()
    kernel: str = ""


NO_HINT = RowHint()
