"""The arrays that an operand of a product comes from, with no other product on the way."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, Node
from kb.ops import CONTRACTIONS


def arrays_of(facts: Facts, value: str | None) -> set[str | None]:
    """The arrays of the tiles that a value is made of without a product; empty with one."""
    if value is None or facts.graph.roots(value, *CONTRACTIONS):
        return set()
    rank, found = _axes(facts, value), set[str | None]()
    for node in in_one_round(facts, value):
        access = facts.access(node)
        if access is not None and _axes(facts, access.value) == rank:
            found.add(access.array)
    return found


def _axes(facts: Facts, value: str) -> int:
    """How many axes of a tile have more than one element."""
    return sum(extent != "1" for extent in facts.types.shape(value))


def in_one_round(facts: Facts, value: str) -> Iterator[Node]:
    """What a value is computed from in one round of a loop; loads and products end the way, and
    types are no values."""
    pending, seen = [value], {value}
    for one in pending:
        node = facts.graph.producer(one)
        if node is None or node.op.kind in LOOPS:
            continue
        yield node
        if node.op.kind in CONTRACTIONS or facts.access(node) is not None:
            continue
        feeds = node.op.inputs[:1] if node.op.kind in CASTS else facts.graph.feeds(one)
        new = [feed for feed in feeds if feed not in seen]
        seen.update(new)
        pending += new
