"""Which normalisation is computed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, ROW_NORM, RUNNING_NORM, SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS, SOFTMAX_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.normalisations import normalisations
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind


class NormKind(Pattern):
    """The root of a mean of squares multiplies a row, with or without its mean taken away; or the
    root of their sum does."""

    name = "root-of-mean-square-normalisation"
    axis = "norm_kind"
    source = "Ba et al., Layer Normalization (2016); Zhang and Sennrich, RMSNorm (2019)"
    matches = (
        Case(ROW_NORM, "RMSNorm"),
        Case(LAYER_NORM_POINTER, "LayerNorm"),
        Case(ROW_NORM_THREADS, "RMSNorm"),
        Case(vary(ROW_NORM, ("keepdims=False) / N + eps", "keepdims=False) + eps")), "L2"),
    )
    near_misses = (
        NearMiss(SOFTMAX, why="a sum of exponentials, no root"),
        NearMiss(RUNNING_NORM, why="the statistics were made elsewhere"),
        NearMiss(PRODUCT, why="no root"),
        NearMiss(SOFTMAX_POINTER, why="a sum of exponentials, no root"),
        NearMiss(SOFTMAX_THREADS, why="a sum of exponentials, no root"),
        NearMiss(ROW_NORM, why="the sum is divided by the extent", value="L2"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for norm in normalisations(facts):
            if not norm.sums:
                continue
            where: list[Node] = [*norm.sums, norm.root, *norm.centres]
            plain = "RMSNorm" if self._mean(facts, norm.root) else "L2"
            yield self.decide(facts, "LayerNorm" if norm.centres else plain, where)
            return

    def _mean(self, facts: Facts, root: Node) -> bool:
        """Whether the sum of squares is divided, or scaled, before its root is taken."""
        steps = facts.graph.upstream(root.op.inputs[0], lambda n: n.op.kind in REDUCTIONS)
        return any(node.op.kind in (OpKind.DIV, OpKind.MUL) for node in steps)
