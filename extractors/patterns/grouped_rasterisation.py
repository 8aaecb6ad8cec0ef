"""Output tiles are taken up in groups of rows, so that neighbours share operands in the cache."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_PERSISTENT, PRODUCT_POINTER
from extractors.patterns.cases_pointer import PRODUCT_PERSISTENT_POINTER
from extractors.patterns.cases_threads import PRODUCT_PERSISTENT_THREADS, PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind


class GroupedRasterisation(Pattern):
    """first = id // (group * columns) * group; rows = min(all - first, group); row = first + id %
    rows."""

    name = "grouped-rasterisation"
    axis = "rasterization"
    source = "Triton documentation, Matrix Multiplication tutorial, L2 cache optimizations"
    matches = (
        Case(PRODUCT_PERSISTENT, "grouped-M"),
        Case(PRODUCT_PERSISTENT_POINTER, "grouped-M"),
        Case(PRODUCT_PERSISTENT_THREADS, "grouped-M"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="rows and columns are two grid axes"),
        NearMiss(
            ATTENTION,
            why="quotient and remainder by one number find batch and head, nothing is grouped",
        ),
        NearMiss(PRODUCT_POINTER, why="rows and columns are two grid axes"),
        NearMiss(PRODUCT_THREADS, why="rows and columns are two grid axes"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for height in facts.graph.of(OpKind.MINIMUM):
            first = self._first(facts, height)
            if first is None:
                continue
            rows = facts.values.expr(height.result).atom
            steps = [
                n
                for n in facts.graph.of(OpKind.MOD, OpKind.FLOOR_DIV)
                if facts.values.expr(n.op.inputs[1]).atom == rows
            ]
            if len({n.op.kind for n in steps}) == 2:
                yield self.decide(facts, "grouped-M", (first, height, *steps))
                return

    def _first(self, facts: Facts, height: Node) -> Node | None:
        """The multiplication that gives the first row of the group: min(all - group * quotient,
        group)."""
        values = [facts.values.expr(v) for v in height.op.inputs[:2]]
        for rest, group in (values, values[::-1]):
            quotient = self._quotient(rest, group)
            if quotient is None:
                continue
            for node in facts.graph.of(OpKind.MUL):
                if facts.values.expr(node.result) == quotient:
                    return node
        return None

    def _quotient(self, rest: Expr, group: Expr) -> Expr | None:
        """The part of `all - group * (id // width)` that is subtracted."""
        taken = [(f, -n) for f, n in rest.terms if n < 0]
        if len(taken) != 1:
            return None
        factors, number = taken[0]
        divided = [a for a in factors if a.kind is AtomKind.FLOOR_DIV]
        if not divided or (group.constant is None and group.atom not in factors):
            return None
        if group.constant is not None and group.constant != number:
            return None
        return Expr(((factors, number),))
