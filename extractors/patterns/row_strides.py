"""Rows that lie as far apart as the launch says, while their elements lie side by side."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.argument_strides import free_strides
from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER
from extractors.patterns.cases_rows_pointer import ROW_NORM_POINTER
from extractors.patterns.handed_strides import measured, products
from extractors.patterns.stride_set_shared import compared, shared_strides
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr, nested
from kb.evidence import Decision

_FIXED = vary(
    PRODUCT_POINTER, ("sa, sb, so, TM", "sa: tl.constexpr, sb: tl.constexpr, so: tl.constexpr, TM")
)


class RowStrides(Pattern):
    """A parameter is nothing but the factor of a position in addresses, and the last axis has no
    stride."""

    name = "strides-of-rows-as-arguments"
    axis = "layout_contract"
    source = "PyTorch documentation, tensor views: stride"
    matches = (
        Case(PRODUCT_POINTER, "strides as arguments"),
        Case(LAYER_NORM_POINTER, "strides as arguments"),
        Case(ROW_NORM_POINTER, "strides as arguments"),
        Case(_FIXED, "strides as arguments"),
    )
    near_misses = (
        NearMiss(
            vary(PRODUCT_POINTER, ("* sa", "* K"), ("* sb", "* N"), ("* so", "* N")),
            why="rows lie one after the other",
        ),
        NearMiss(
            vary(ROW_NORM_POINTER, ("* sx", "* N"), ("* so", "* N")),
            why="rows lie one after the other",
        ),
        NearMiss(ADD_POINTER, why="a flat array has no strides"),
        NearMiss(PRODUCT, why="views know their strides"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.program is not facts.source:
            return
        names = row_strides(facts)
        names -= free_strides(facts) | shared_strides(facts) if names else set()
        if names:
            where: list[Where] = [*facts.declared(*names), *products(facts, names)]
            where += _blocks(facts, names)
            yield self.decide(facts, "strides as arguments", where, ", ".join(sorted(names)))


def row_strides(facts: Facts) -> set[str]:
    """Parameters that are factors of positions in addresses and nothing else."""
    names, sizes = strides_and_sizes(facts)
    names -= sizes
    return names - compared(facts) - measured(facts) if names else names


def strides_and_sizes(facts: Facts) -> tuple[set[str], set[str]]:
    """Parameters that positions alone are multiplied with in addresses; and sizes: those that are
    multiplied with each other, or bound a block of pointers."""
    single: set[str] = set()
    sizes: set[str] = set()
    for access in facts.accesses:
        exprs = access.index if access.mode is Mode.POINTER else ()
        if access.made is not None:
            exprs = _operands(facts, access.made, "strides")
            bounds = _operands(facts, access.made, "shape")
            sizes |= {n for e in bounds for n in _named(e.atoms())}
        for factors in (f for e in exprs for one in nested(e) for f, _ in one.terms):
            named = _named(factors) - facts.tile_extents
            single |= named if access.made is not None or len(factors) > 1 else set()
            sizes |= named if len(named) > 1 else set()
    return single, sizes


def _blocks(facts: Facts, names: set[str]) -> list[Node]:
    """What makes blocks of pointers with some of the strides."""
    made = dict.fromkeys(a.made for a in facts.accesses if a.made is not None)
    return [
        node
        for node in made
        if any(names & _named(e.atoms()) for e in _operands(facts, node, "strides"))
    ]


def _operands(facts: Facts, made: Node, role: str) -> tuple[Expr, ...]:
    """The shape or the strides of a block of pointers."""
    return tuple(facts.values.expr(item) for item in facts.values.items(made.op.operand(role)))


def _named(atoms: Iterable[Atom]) -> set[str]:
    return {a.value for a in atoms if a.kind is AtomKind.PARAMETER}
