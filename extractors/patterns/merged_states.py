"""Partial results of a softmax are rescaled to a common maximum and added."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_merges import GATED_THREADS, MERGE_PAIR_THREADS
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.merging import Form, merge_of
from kb.evidence import Decision


class MergedStates(Pattern):
    """A maximum of loaded log-sum-exps, and weights that are exponentials of what they lie below
    it; a loop over the parts is told as an online softmax."""

    name = "merge-of-partial-softmax-states"
    axis = "softmax_scheme"
    source = "Milakov and Gimelshein (2018), section 3.1: two states put together"
    matches = (Case(MERGE_PAIR_THREADS, "merge of partial states with rescale"),)
    near_misses = (
        NearMiss(FLASH_THREADS, why="scores are computed, and a loop carries the state"),
        NearMiss(SOFTMAX_THREADS, why="the exponentials weigh nothing"),
        NearMiss(GATED_THREADS, why="no maximum of statistics"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        merge = merge_of(facts)
        if merge is not None and merge.form is Form.PAIRWISE:
            where = (*merge.maxima, *merge.weights, *merge.totals)
            yield self.decide(facts, "merge of partial states with rescale", where)
