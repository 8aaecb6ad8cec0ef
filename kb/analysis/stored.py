"""What stored values are computed from."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.facts import Facts
from kb.analysis.graph import Node


def computed(facts: Facts, nodes: Iterable[Node]) -> list[Node]:
    """Those nodes that stored values are computed from, otherwise than as a place or a mask."""
    stores = [s.value for s in facts.stores if s.value is not None]
    above = {
        n for v in stores for n in facts.graph.upstream(v, lambda n: facts.access(n) is not None)
    }
    return [n for n in nodes if n in above]
