"""Whether extents of the problem are known when the kernel is compiled."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT_POINTER
from extractors.patterns.cases_rows import COPY, ROW_NORM
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import COMPARISONS, OpKind

_USES = COMPARISONS | {OpKind.CEIL_DIV, OpKind.RANGE, OpKind.DIV, OpKind.MINIMUM}
_SINGLE = (
    POINTER
    + """
@triton.jit
def once(x):
    tl.store(x, tl.load(x) + 1)
"""
)


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
        Case(COPY, "constexpr"),
    )
    near_misses = (
        NearMiss(COPY, why="no extent is read", value="runtime scalar"),
        NearMiss(_SINGLE, why="one number is read and written, nothing is fixed beforehand"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        shapes = facts.graph.of(OpKind.SHAPE, OpKind.NUM_TILES)
        if shapes:
            yield self.decide(facts, "array.shape", shapes)
        tiles = facts.tile_extents
        for value, kinds in (
            ("constexpr", (ParameterKind.CONSTEXPR,)),
            ("runtime scalar", (ParameterKind.SCALAR, ParameterKind.UNTOLD)),
        ):
            names = {p.name for p in facts.kernel.entry.parameters if p.kind in kinds} - tiles
            where = [
                n for n in facts.graph.nodes if n.op.kind in _USES and self._extent(facts, n, names)
            ]
            used = names if kinds == (ParameterKind.CONSTEXPR,) else self._read(facts, where, names)
            fixed = facts.constexprs if used is names else used
            lines = facts.declared(*fixed)
            if where or (used is names and lines):
                yield self.decide(facts, value, [*where, *lines])

    def _read(self, facts: Facts, where: list[Node], names: set[str]) -> set[str]:
        """The names that bounds and comparisons read."""
        atoms = [a for n in where for v in n.op.inputs for a in facts.values.expr(v).atoms()]
        return {a.value for a in atoms if a.kind is AtomKind.PARAMETER} & names

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
                if any(o.atom is not None and o.atom.value in facts.tile_extents for o in others):
                    return True
        return False
