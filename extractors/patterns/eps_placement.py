"""Where the small number that keeps a root from zero is added."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, ROW_NORM, RUNNING_NORM
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.normalisations import normalisations
from kb.evidence import Decision
from kb.ops import READS, REDUCTIONS, OpKind


class EpsPlacement(Pattern):
    """An addition right below the root, or right above it."""

    name = "epsilon-inside-the-root"
    axis = "eps_placement"
    source = "Ba et al., Layer Normalization (2016); framework reference of layer_norm"
    matches = (
        Case(ROW_NORM, "inside rsqrt"),
        Case(LAYER_NORM_POINTER, "inside rsqrt"),
        Case(
            vary(LAYER_NORM_POINTER, ("tl.rsqrt(var + eps)", "1.0 / (tl.sqrt(var) + eps)")),
            "after sqrt",
        ),
        Case(ROW_NORM_THREADS, "inside rsqrt"),
        Case(RUNNING_NORM, "inside rsqrt"),
        Case(
            vary(LAYER_NORM_POINTER, ("tl.rsqrt(var + eps)", "tl.rsqrt(tl.maximum(var, eps))")),
            "clamp",
        ),
    )
    near_misses = (
        NearMiss(
            vary(
                RUNNING_NORM,
                ("tl.rsqrt(tl.load(squares + row % C) + eps)", "tl.load(squares + row % C) + eps"),
            ),
            why="a number is added to what is loaded, no root is taken",
        ),
        NearMiss(PRODUCT, why="no root"),
        NearMiss(vary(ROW_NORM, (" / N + eps)", " / N)")), why="nothing is added"),
        NearMiss(PRODUCT_POINTER, why="no root"),
        NearMiss(PRODUCT_THREADS, why="no root"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for norm in normalisations(facts):
            below = facts.graph.producer(facts.graph.through(norm.root.op.inputs[0], VIEWS | CASTS))
            if below is not None and below.op.kind == OpKind.ADD:
                yield self.decide(
                    facts, "inside rsqrt", (below, norm.root, *_widened(facts, below))
                )
                return
            if below is not None and below.op.kind == OpKind.MAXIMUM:
                yield self.decide(facts, "clamp", (below, norm.root))
                return
            after = [
                n for n in facts.graph.downstream(norm.root.result, 8) if n.op.kind == OpKind.ADD
            ]
            if after and norm.root.op.kind == OpKind.SQRT:
                yield self.decide(facts, "after sqrt", (norm.root, after[0]))
                return


def _widened(facts: Facts, added: Node) -> list[Node]:
    """Casts of the small number itself, which comes from a parameter and no memory."""
    return [
        node
        for value in added.op.inputs[:2]
        for node in facts.graph.upstream(value, lambda n: n.op.kind in REDUCTIONS | READS)
        if node.op.kind in CASTS and not facts.feeding(node.op.inputs[0])
    ]
