"""Hints how long a load or store may take."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.space import Constraint, implied

LARGEST_LATENCY = 10
"""Largest latency hint of a load or store (cuTile documentation, cuda.tile.load: latency)."""


def latencies(facts: Facts) -> Iterator[Constraint]:
    """Latency hints that a parameter carries."""
    for access in facts.accesses:
        atom = facts.values.expr(access.latency).atom if access.latency else None
        if atom is not None and atom.value in facts.constexprs:
            yield implied(
                f"{atom.value} <= {LARGEST_LATENCY}",
                f"{atom.value} is the latency hint of a load or store",
                f"use 1 to {LARGEST_LATENCY}, or leave the hint out",
                access.node.lines,
            )
