"""Every pattern has a case and a near miss in every dialect that it occurs in, or a reason why
not."""

from __future__ import annotations

import pytest

from benchmarks.catalogue.coverage import DIALECTS, Coverage, coverage, gaps
from kb.graph.vocabulary import PatternEntry, patterns

DECIDED = [entry for entry in patterns().values() if entry.axis]


@pytest.fixture(scope="module")
def counts() -> Coverage:
    return coverage()


@pytest.mark.parametrize("entry", DECIDED, ids=lambda entry: entry.name)
def test_pattern_has_cases_where_it_occurs(entry: PatternEntry, counts: Coverage) -> None:
    assert entry.dialects, "say in tl:occursIn in which dialects the pattern occurs"
    assert not list(gaps(entry, counts[entry.name]))


@pytest.mark.parametrize("entry", DECIDED, ids=lambda entry: entry.name)
def test_excuses_are_needed(entry: PatternEntry, counts: Coverage) -> None:
    """A dialect with cases needs no excuse; one that a pattern cannot occur in has no case."""
    for dialect, reason in entry.unseen:
        assert dialect in entry.dialects
        assert reason
        assert not counts[entry.name][dialect].cases
    for dialect in DIALECTS:
        assert dialect in entry.dialects or not counts[entry.name][dialect].cases
