"""Operands of matrix products that come from two arrays as they are: of one element type."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.flags import unless
from kb.analysis.graph import COPIES, TURNS, VIEWS, Lines, Node
from kb.space import Constraint, implied

_AS_LOADED = VIEWS | COPIES | TURNS

MAX_PAIRS = 4
"""Pairs in one expression, which a person still reads."""


def same_types(facts: Facts) -> Iterator[Constraint]:
    """One constraint for all products of a tile program whose operands nothing casts: a product
    takes both of one type."""
    found: dict[str, Lines] = {}
    for product in facts.contractions if not facts.of_threads else ():
        arrays = [_array(facts, product.op.operand(role)) for role in ("lhs", "rhs")]
        if None in arrays or len(set(arrays)) < 2 or not _plain(facts, product):
            continue
        first, second = sorted(one for one in arrays if one is not None)
        found.setdefault(f"{first}.dtype == {second}.dtype", product.lines)
    if 0 < len(found) <= MAX_PAIRS:
        yield implied(
            " and ".join(found),
            "a matrix product takes both as they were loaded, and refuses two types, unless both "
            "are floats of 8 bits",
            "check it before the launch, or cast one to the type of the other",
            next(iter(found.values())),
        )


def _array(facts: Facts, value: str | None) -> str | None:
    """The array that an operand was loaded from, and nothing computed or cast since."""
    node = facts.graph.producer(facts.graph.through(value, _AS_LOADED)) if value else None
    access = facts.access(node) if node is not None else None
    return access.array if access is not None and not access.is_store else None


def _plain(facts: Facts, product: Node) -> bool:
    """Whether a product runs whatever the flags are."""
    return not facts.guards(product) and not unless(facts, product)
