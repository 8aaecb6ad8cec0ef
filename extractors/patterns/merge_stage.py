"""The second stage of a softmax that was split among blocks."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION
from extractors.patterns.cases_merges import (
    GATED_THREADS,
    MERGE,
    MERGE_APART_POINTER,
    MERGE_LOOP_POINTER,
    MERGE_LOOP_THREADS,
    MERGE_PAIR_THREADS,
    MERGE_POINTER,
    MERGE_TWICE_POINTER,
    WEIGHED_ROWS_POINTER,
)
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from kb.analysis.facts import Facts
from kb.analysis.merging import Form, merge_of
from kb.evidence import Decision


class MergeStage(Pattern):
    """Any number of partial results are read with their log-sum-exps, and one result is written.
    Two results that are joined need not come from a split."""

    name = "second-stage-over-the-pieces"
    axis = "reduction_split"
    source = "Dao et al., Flash-Decoding for long-context inference (2023): the reduction step"
    matches = (
        Case(MERGE, "second stage over the pieces, weighted by log-sum-exp"),
        Case(MERGE_POINTER, "second stage over the pieces, weighted by log-sum-exp"),
        Case(MERGE_TWICE_POINTER, "second stage over the pieces, weighted by log-sum-exp"),
        Case(MERGE_LOOP_THREADS, "second stage over the pieces, weighted by log-sum-exp"),
        Case(MERGE_LOOP_POINTER, "second stage over the pieces, weighted by log-sum-exp"),
        Case(MERGE_APART_POINTER, "second stage over the pieces, weighted by log-sum-exp"),
    )
    near_misses = (
        NearMiss(
            WEIGHED_ROWS_POINTER, why="rows that loaded places lead to are no partial results"
        ),
        NearMiss(MERGE_PAIR_THREADS, why="two results are joined, not the pieces of one"),
        NearMiss(SOFTMAX, why="the exponentials are the output, they weigh nothing"),
        NearMiss(SOFTMAX_POINTER, why="the exponentials are the output, they weigh nothing"),
        NearMiss(ATTENTION, why="the scores are computed, not loaded"),
        NearMiss(GATED_THREADS, why="no maximum of statistics"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        merge = merge_of(facts)
        if merge is not None and merge.form is not Form.PAIRWISE:
            value = "second stage over the pieces, weighted by log-sum-exp"
            taken = [e.score for e in facts.exponentials if e.node in merge.weights]
            loads = [a for score in taken for a in facts.held_loads(score)]
            yield self.decide(
                facts, value, (*loads, *merge.maxima, *merge.weights, *merge.weighted)
            )
