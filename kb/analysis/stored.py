"""What stored values are computed from."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.facts import Facts
from kb.analysis.graph import Node


def computed(facts: Facts, nodes: Iterable[Node]) -> list[Node]:
    """Those nodes that stored values are computed from, otherwise than as a place or a mask."""
    wanted = [*nodes]
    stores = [s.value for s in facts.stores if s.value is not None]
    above = facts.graph.made_from(stores, wanted, lambda n: facts.access(n) is not None)
    return [n for n in wanted if n in above]
