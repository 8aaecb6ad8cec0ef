"""Values that are made once and go into several arrays."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.ops import CONTRACTIONS, REDUCTIONS


def made_once(facts: Facts) -> Iterator[Access]:
    """Loads of what one value is made of element by element that several arrays take."""
    stores = [s for s in facts.stores if not s.is_atomic and s.array and not facts.of_threads]
    same: dict[str | None, list[Access]] = {}
    for store in stores:
        if facts.types.shape(store.value) and not facts.held_loads(store.value):
            same.setdefault(facts.graph.core(store.value), []).append(store)
    for value, taking in same.items():
        apart = any(one.node.excludes(two.node) for one in taking for two in taking)
        if value is None or apart or len({s.array for s in taking}) < 2:
            continue
        loads = [a for a in facts.feeding(value) if facts.types.shape(a.value)]
        if loads and not facts.graph.roots(value, *REDUCTIONS, *CONTRACTIONS):
            yield from (*loads, *taking)
