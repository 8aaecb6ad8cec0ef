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
from kb.analysis.facts import Facts
from kb.analysis.merging import merge_of
from kb.evidence import Decision

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


MERGE_TWICE_POINTER = (
    POINTER
    + """
@triton.jit
def merge(parts, stat, out, count, W: tl.constexpr, T: tl.constexpr):
    b = tl.program_id(0)
    d = tl.arange(0, T)
    top = float("-inf")
    for s in range(count):
        top = tl.maximum(top, tl.load(stat + b * count + s))
    tot = 0.0
    acc = tl.zeros((T,), dtype=tl.float32)
    for s in range(count):
        w = tl.exp((tl.load(stat + b * count + s) - top))
        tot += w
        acc += tl.load(parts + (b * count + s) * W + d, mask=d < W) * w
    acc = acc / tot
    tl.store(out + b * W + d, acc.to(out.dtype.element_ty), mask=d < W)
"""
)
"""The greatest statistic is known before the parts are weighed."""

_LISTED = vary(
    MERGE_TWICE_POINTER,
    ("stat + b * count + s", "stat[s] + b"),
    ("parts + (b * count + s) * W + d", "parts[s] + b * W + d"),
)
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
            sums = (*merge.totals, *merge.weighted, *merge.quotients)
            yield self.decide(facts, merge.form, (*merge.maxima, *merge.weights, *sums))
