"""Where accesses of a kernel are, so that those of two arrays can be compared."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.idioms import comparisons, sides
from kb.analysis.parameters import strides_of
from kb.analysis.symbolic import Expr


def places(facts: Facts, access: Access) -> list[tuple[str, ...]]:
    """Where an access is, whatever strides its array has."""
    strides = strides_of(facts)
    found = [
        (str(number), *("stride" if atom.value in strides else atom.text for atom in factors))
        for index in access.index
        for factors, number in index.terms
    ]
    shape = facts.types.shape(access.value)
    return [shape, *sorted(tuple(sorted(factors)) for factors in found)]


def tests(facts: Facts, access: Access) -> set[tuple[str, Expr, Expr]]:
    """What the mask of an access compares."""
    return {(n.op.kind, *sides(facts, n)) for n in comparisons(facts, access.mask)}
