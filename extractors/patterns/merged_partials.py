"""Partial outputs of splits merged by their log-sum-exp."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, vary
from extractors.patterns.cases_merges import (
    GATED_THREADS,
    MERGE,
    MERGE_APART_POINTER,
    MERGE_LOGARITHM_POINTER,
    MERGE_LOOP_POINTER,
    MERGE_LOOP_THREADS,
    MERGE_OWN_POINTER,
    MERGE_PAIR_THREADS,
    MERGE_POINTER,
    MERGE_SUMS_POINTER,
    MERGE_TWICE_POINTER,
    WEIGHED_ROWS_POINTER,
)
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_CHUNKS_THREADS, SOFTMAX_THREADS
from kb.analysis.facts import Facts
from kb.analysis.merging import merge_of
from kb.evidence import Decision

_SCORED = vary(MERGE, ("    w = ct.exp2(", "    lse = ct.sum(v, axis=1) * lse\n    w = ct.exp2("))
_MEAN = vary(MERGE, ("    w = ct.exp2(lse - ct.max(lse))\n", "    w = lse\n"))


_LISTED = vary(
    MERGE_TWICE_POINTER,
    ("stat + b * count + s", "stat[s] + b"),
    ("parts + (b * count + s) * W + d", "parts[s] + b * W + d"),
)
_CHOSEN = vary(
    MERGE_TWICE_POINTER,
    ("        top = tl.maximum(top, tl.load(stat + b * count + s))",
     "        now = tl.load(stat + b * count + s)\n        top = tl.where(now > top, now, top)"),
)  # fmt: skip
_UNSTORED = vary(MERGE_SUMS_POINTER, ("    tl.store(top + b, most)\n", ""))
_NORMALISED = vary(
    MERGE,
    ("(lse - ct.max(lse))", "(lse - ct.max(lse))\n    w = w / ct.sum(w)"),
    ("    acc = acc / ct.sum(w)\n", ""),
)
_ASKED = vary(
    _NORMALISED,
    ("    w = ct.exp2(", "    lse = ct.where(ct.arange(S, dtype=ct.int32) < T, lse, -1e30)\n    w = ct.exp2("),  # noqa: E501
)  # fmt: skip


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
        Case(_NORMALISED, "parallel softmax over LSE"),
        Case(_ASKED, "parallel softmax over LSE"),
        Case(_LISTED, "maximum first, then weighted sums"),
        Case(MERGE_TWICE_POINTER, "maximum first, then weighted sums"),
        Case(_CHOSEN, "maximum first, then weighted sums"),
        Case(MERGE_LOGARITHM_POINTER, "parallel softmax over LSE"),
        Case(MERGE_OWN_POINTER, "own part weighted by the LSE of all"),
        Case(MERGE_SUMS_POINTER, "sums rescaled to the common maximum"),
        Case(MERGE_PAIR_THREADS, "pairwise softmax over LSE"),
        Case(MERGE_LOOP_THREADS, "sequential online merge"),
        Case(MERGE_LOOP_POINTER, "sequential online merge"),
        Case(MERGE_APART_POINTER, "parallel softmax over LSE"),
    )
    near_misses = (
        NearMiss(
            WEIGHED_ROWS_POINTER, why="rows that loaded places lead to are no partial results"
        ),
        NearMiss(SOFTMAX, why="the exponentials are the output, they weigh nothing"),
        NearMiss(ATTENTION, why="the scores are computed, not loaded"),
        NearMiss(_SCORED, why="the exponents are computed from two arrays"),
        NearMiss(_MEAN, why="weights are used as loaded"),
        NearMiss(SOFTMAX_POINTER, why="the exponentials are the output, they weigh nothing"),
        NearMiss(SOFTMAX_THREADS, why="the exponentials are the output, they weigh nothing"),
        NearMiss(SOFTMAX_CHUNKS_THREADS, why="the sums are rescaled, but nothing is weighed"),
        NearMiss(_UNSTORED, why="what is summed is no part of a softmax: its maximum is dropped"),
        NearMiss(GATED_THREADS, why="no maximum of statistics"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        merge = merge_of(facts)
        if merge is not None:
            sums = (*merge.totals, *merge.weighted, *merge.quotients)
            yield self.decide(facts, merge.form, (*merge.maxima, *merge.weights, *sums))
