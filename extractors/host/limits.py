"""How far reading goes before it says Unknown: steps, nesting, sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one evaluation. `steps` counts statements and expressions of one entry function,
    `idle_steps` those of one that leads to no kernel."""

    steps: int = 150_000
    idle_steps: int = 1_000
    depth: int = 150
    calls: int = 24
    items: int = 4096
    loop_rounds: int = 4096
    text: int = 4096
    events: int = 2000
    modules: int = 40
    sibling_steps: int = 12_000


class OutOfBounds(Exception):
    """A bound was reached; caught at the nearest call that can answer Unknown with this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
