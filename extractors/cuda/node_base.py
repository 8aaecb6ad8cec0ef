"""Where things stand in CUDA C++, and what everything that is walked has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Place:
    """First line (1-based), column (0-based) and last line in a file."""

    line: int
    column: int
    end_line: int
    path: str


@dataclass(frozen=True, slots=True)
class Node:
    """An expression or a statement. `kept`: what stands in it is remembered once asked for."""

    kept: ClassVar[bool] = False
    at: Place
