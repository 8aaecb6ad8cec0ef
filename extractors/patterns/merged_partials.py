"""Partial outputs of splits merged by their log-sum-exp."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, TILE, vary
from extractors.patterns.cases_merges_threads import (
    GATED_THREADS,
    MERGE_LOOP_THREADS,
    MERGE_PAIR_THREADS,
)
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_CHUNKS_THREADS, SOFTMAX_THREADS
from kb.analysis.exponentials import Exponential
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.merging import merge_of
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

MERGE = (
    TILE
    + """
@ct.kernel
def merge(parts, stat, out, S: Int, T: Int):
    b = ct.bid(0)
    d = ct.bid(1)
    v = ct.reshape(ct.load(parts, index=(b, 0, d), shape=(1, S, T)), (S, T))
    lse = ct.gather(stat, (b, ct.arange(S, dtype=ct.int32)), padding_value=-math.inf)
    w = ct.exp2(lse - ct.max(lse))
    acc = ct.sum(v * ct.reshape(w, (S, 1)), axis=0)
    acc = acc / ct.sum(w)
    ct.store(out, index=(b, d), tile=ct.reshape(acc.astype(out.dtype), (1, T)))
"""
)
_SCORED = vary(MERGE, ("    w = ct.exp2(", "    lse = ct.sum(v, axis=1) * lse\n    w = ct.exp2("))
_MEAN = vary(MERGE, ("    w = ct.exp2(lse - ct.max(lse))\n", "    w = lse\n"))


MERGE_POINTER = (
    POINTER
    + """
@triton.jit
def merge(parts, stat, out, S: tl.constexpr, W: tl.constexpr, T: tl.constexpr):
    b = tl.program_id(0)
    s = tl.arange(0, S)
    d = tl.program_id(1) * T + tl.arange(0, T)
    v = tl.load(parts + (b * S + s)[:, None] * W + d[None, :])
    lse = tl.load(stat + b * S + s)
    w = tl.exp2(lse - tl.max(lse, axis=0))
    acc = tl.sum(v * w[:, None], axis=0)
    acc = acc / tl.sum(w, axis=0)
    tl.store(out + b * W + d, acc.to(out.dtype.element_ty))
"""
)


class MergedPartials(Pattern):
    """Exponentials of a loaded statistic less its maximum weigh another loaded tile; the weighted
    sum is divided by the sum of the weights. Threads take the parts in pair by pair, or one after
    the other."""

    name = "lse-weighted-merge-of-partials"
    axis = "reduction_combine"
    source = "tilelore catalogue, P72; Dao et al., Flash-Decoding for long-context inference (2023)"
    matches = (
        Case(MERGE, "parallel softmax over LSE"),
        Case(MERGE_POINTER, "parallel softmax over LSE"),
        Case(MERGE_PAIR_THREADS, "pairwise softmax over LSE"),
        Case(MERGE_LOOP_THREADS, "sequential online merge"),
    )
    near_misses = (
        NearMiss(SOFTMAX, why="the exponentials are the output, they weigh nothing"),
        NearMiss(ATTENTION, why="the scores are computed, not loaded"),
        NearMiss(_SCORED, why="the exponents are computed from two arrays"),
        NearMiss(_MEAN, why="weights are used as loaded"),
        NearMiss(SOFTMAX_POINTER, why="the exponentials are the output, they weigh nothing"),
        NearMiss(SOFTMAX_THREADS, why="the exponentials are the output, they weigh nothing"),
        NearMiss(SOFTMAX_CHUNKS_THREADS, why="the sums are rescaled, but nothing is weighed"),
        NearMiss(GATED_THREADS, why="no maximum of statistics"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        merge = merge_of(facts)
        if merge is not None:
            value = "sequential online merge" if merge.running else "pairwise softmax over LSE"
            yield self.decide(facts, value, (*merge.weights, *merge.totals, *merge.weighted))
            return
        for weight in facts.exponentials:
            if weight.rescale or not self._loaded(facts, weight):
                continue
            own = {a.array for a in facts.feeding(weight.node.result)}
            sums = [n for n in facts.graph.of(OpKind.REDUCE_SUM) if self._on(facts, n, weight)]
            total = [n for n in sums if {a.array for a in facts.feeding(n.result)} == own]
            products = [p for p in facts.contractions if self._on(facts, p, weight)]
            mixed = [n for n in (*sums, *products) if n not in total]
            for quotient in facts.graph.of(OpKind.DIV):
                over, under = quotient.op.inputs[:2]
                above = [n for n in mixed if facts.graph.rests_on(over, n)]
                below = [n for n in total if facts.graph.rests_on(under, n)]
                if above and below:
                    where = (weight.node, *above, *below, quotient)
                    yield self.decide(facts, "parallel softmax over LSE", where)
                    return

    def _loaded(self, facts: Facts, weight: Exponential) -> bool:
        """The exponent is a load less the maximum of that load, no product in between."""
        tops = facts.graph.roots(weight.node.result, OpKind.REDUCE_MAX)
        products = facts.graph.roots(weight.node.result, *CONTRACTIONS)
        return bool(tops) and not products and bool(facts.held_loads(weight.score))

    def _on(self, facts: Facts, node: Node, weight: Exponential) -> bool:
        return facts.graph.rests_on(node.result, weight.node)
