"""Rows that pad a batch carry a negative number and do nothing."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.marked_items import MARKED, MARKED_THREADS, MARKED_TILE
from kb.analysis.facts import Facts
from kb.analysis.marks import marks
from kb.evidence import Decision


class RowsWithoutPlace(Pattern):
    """A branch on a negative number that was loaded for the own item leaves, or goes on with the
    next item, or holds all that is loaded: an item without a place, or that pads the batch."""

    name = "negative-numbers-mark-padding"
    axis = "oob_rows"
    source = "vLLM, csrc/cache_kernels.cu: a padded token has slot -1"
    matches = (
        Case(vary(MARKED, ("own == left_out", "own < 0")), "rows with a negative number return"),
        Case(vary(MARKED, ("own == left_out", "0 > own")), "rows with a negative number return"),
        Case(
            vary(MARKED_TILE, ("name == left_out", "name < 0")),
            "rows with a negative number return",
        ),
        Case(MARKED_THREADS.replace("== z", "< 0"), "rows with a negative number return"),
    )
    near_misses = (
        NearMiss(vary(MARKED, ("own == left_out", "own == -1")), why="one number, which is a mark"),
        NearMiss(MARKED, why="a kind of item that the caller names"),
        NearMiss(vary(MARKED, ("own == left_out", "n < 0")), why="nothing is loaded"),
        NearMiss(vary(MARKED, ("own == left_out", "own < 7")), why="7 is as good as 6"),
        NearMiss(ADD_THREADS, why="the place is asked for, no number"),
        NearMiss(ATTENTION, why="branches choose bounds, nothing leaves"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = [node for mark in marks(facts) if mark.negative for node in mark.shown]
        if found:
            yield self.decide(facts, "rows with a negative number return", found)
