"""How a variance is computed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import vary
from extractors.patterns.cases_norms_threads import (
    LENGTHS_THREADS,
    NORM_ALONE_THREADS,
    PAIRS_THREADS,
)
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, ROW_NORM, SOFTMAX
from extractors.patterns.cases_rows_pointer import LAYER_NORM, ROW_NORM_POINTER
from extractors.patterns.cases_rows_threads import (
    LAYER_NORM_THREADS,
    ROW_NORM_THREADS,
)
from extractors.patterns.welford_running import WelfordRunning
from kb.analysis.differences import DIFFERENCES, difference
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import alike
from kb.analysis.normalisations import normalisations
from kb.analysis.row_sums import row_sums, totals
from kb.evidence import Decision
from kb.ops import OpKind

_SQUARES = "sum of squares, not centred"
_ONE_PASS = vary(
    LAYER_NORM_POINTER,
    (
        "    var = tl.sum(c0 * c0, axis=0) / n\n",
        "    var = tl.sum(v * v, axis=0) / n - mean * mean\n",
    ),
)


class VarianceFormulation(Pattern):
    """The mean of squared differences, the mean of squares less the squared mean, or squares that
    no mean is taken from."""

    name = "variance-formulation"
    axis = "variance_algorithm"
    source = "Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance (1983)"
    matches = (
        Case(LAYER_NORM_POINTER, "two-pass centred"),
        Case(_ONE_PASS, "one-pass E[x^2]-E[x]^2"),
        Case(LAYER_NORM, "two-pass centred"),
        Case(LAYER_NORM_THREADS, "two-pass centred"),
        Case(NORM_ALONE_THREADS, "two-pass centred"),
        Case(PAIRS_THREADS, "one-pass E[x^2]-E[x]^2"),
        Case(ROW_NORM, _SQUARES),
        Case(ROW_NORM_POINTER, _SQUARES),
        Case(ROW_NORM_THREADS, _SQUARES),
    )
    near_misses = (
        NearMiss(LENGTHS_THREADS, why="no mean is taken away"),
        NearMiss(LAYER_NORM_THREADS, why="a mean is taken away", value=_SQUARES),
        NearMiss(LAYER_NORM_POINTER, why="a mean is taken away", value=_SQUARES),
        NearMiss(SOFTMAX, why="no squares"),
        NearMiss(PAIRS_THREADS.replace("a.x + b.x", "a.x * b.y"), why="no sums of the lanes"),
        NearMiss(PAIRS_THREADS.replace("fmaf(-mean, mean,", "fmaf(mean, mean,"), why="a sum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.graph.of(OpKind.RSQRT, OpKind.SQRT) or facts.contractions:
            return
        for total in totals(facts):
            square = self._square(facts, total)
            if square is None:
                continue
            centred = [
                n
                for n in facts.graph.roots(square.op.inputs[0], OpKind.SUB)
                if row_sums(facts, n.op.inputs[1])
            ]
            if centred and not any(WelfordRunning().seen(facts)):
                yield self.decide(facts, "two-pass centred", [*centred, square, total])
                return
            less = [
                n
                for n in facts.graph.downstream(total.result)
                if self._less_squared_mean(facts, n, total)
            ]
            if less:
                where: list[Where] = [square, total, less[0]]
                yield self.decide(facts, "one-pass E[x^2]-E[x]^2", where)
                return

        yield from self._not_centred(facts)

    def _not_centred(self, facts: Facts) -> Iterable[Decision]:
        """The squares that rows are normalised by without a mean."""
        norms = [norm for norm in normalisations(facts) if norm.sums]
        if any(norm.centres for norm in norms):
            return
        sums = list(dict.fromkeys(total for norm in norms for total in norm.sums))
        squares = [(square, n) for n in sums if (square := self._square(facts, n)) is not None]
        if squares:
            yield self.decide(facts, _SQUARES, [node for pair in squares for node in pair])

    def _square(self, facts: Facts, total: Node) -> Node | None:
        """The product of a value with itself that the sum is taken of, perhaps summed lane by lane
        before."""
        added = total.op.inputs[-1 if total.op.kind == OpKind.ADD else 0]
        for node in facts.graph.upstream(added, lambda n: n.op.kind == OpKind.REDUCE_SUM):
            left, right = (*node.op.inputs, "", "")[:2]
            if node.op.kind in (OpKind.MUL, OpKind.FMA) and alike(facts.graph, left, right):
                return node
        return None

    def _less_squared_mean(self, facts: Facts, node: Node, total: Node) -> bool:
        taken = difference(facts, node) if node.op.kind in DIFFERENCES else None
        if taken is None or not facts.graph.rests_on(taken[0], total):
            return False
        sides = {facts.graph.core(v) for v in taken[1]}
        return (
            len(taken[1]) == 2 and len(sides) == 1 and not facts.graph.rests_on(taken[1][0], total)
        )
