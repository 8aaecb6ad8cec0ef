"""Whether extents of the problem are known when the kernel is compiled."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, COPY, PRODUCT_POINTER, ROW_NORM
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import COMPARISONS, OpKind

_USES = COMPARISONS | {OpKind.CEIL_DIV, OpKind.RANGE, OpKind.DIV, OpKind.MINIMUM}


class ProblemExtents(Pattern):
    """A bound of a loop or a mask is an extent of an array, a runtime scalar, or a compile-time
    constant."""

    name = "problem-extents-as-compile-time-constants"
    axis = "specialization"
    source = "cuTile documentation, Constant; Triton documentation, tl.constexpr"
    matches = (
        Case(ATTENTION, "array.shape"),
        Case(ROW_NORM, "constexpr"),
        Case(PRODUCT_POINTER, "runtime scalar"),
    )
    near_misses = (NearMiss(COPY, why="no extent is read; the tile is the only constant"),)

    def find(self, facts: Facts) -> Iterable[Decision]:
        shapes = facts.graph.of(OpKind.SHAPE, OpKind.NUM_TILES)
        if shapes:
            yield self.decide(facts, "array.shape", shapes)
        tiles = _tiles(facts)
        for value, kinds in (
            ("constexpr", (ParameterKind.CONSTEXPR,)),
            ("runtime scalar", (ParameterKind.SCALAR, ParameterKind.UNTOLD)),
        ):
            names = {p.name for p in facts.kernel.entry.parameters if p.kind in kinds} - tiles
            where = [
                n for n in facts.graph.nodes if n.op.kind in _USES and self._extent(facts, n, names)
            ]
            if where:
                yield self.decide(facts, value, where)

    def _extent(self, facts: Facts, node: Node, names: set[str]) -> bool:
        """True when one side is a parameter by itself, or one less a multiple, and the other
        counts positions."""
        for value in node.op.inputs:
            expr = facts.values.expr(value)
            alone = [f[0] for f, n in expr.terms if n == 1 and len(f) == 1]
            if expr.atom is None and node.op.kind not in COMPARISONS:
                continue
            if any(a.kind is AtomKind.PARAMETER and a.value in names for a in alone):
                if expr.has(AtomKind.LANE):
                    continue
                others = [facts.values.expr(v) for v in node.op.inputs if v != value]
                if node.op.kind not in COMPARISONS or any(
                    o.has(AtomKind.LANE, AtomKind.INDUCTION) for o in others
                ):
                    return True
                if any(o.atom is not None and o.atom.value in _tiles(facts) for o in others):
                    return True
        return False


def _tiles(facts: Facts) -> set[str]:
    """Parameters that are extents of tiles."""
    shapes = {
        e for node in facts.graph.nodes for r in node.op.results for e in facts.types.shape(r.name)
    }
    return shapes & set(facts.kernel.entry.parameter_names)
