"""Cases and near misses of patterns that the program and the host tell together."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.cases import CASES as HOST_CASES
from extractors.host.samples import HostCase, HostMiss
from extractors.told_cases import CASES, MISSES
from extractors.told_together import told_together
from kb.evidence import Decision
from kb.graph.vocabulary import axes
from tests.extractors.rules.support import subjects


def _told(text: str) -> list[Decision]:
    found = subjects(text).values()
    return [d for s in found for d in told_together(detect(s.facts.kernel, s.host), s.host)]


def _patterns(text: str) -> set[str]:
    return {d.pattern for d in _told(text)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.pattern)
def test_case(case: HostCase) -> None:
    assert case.pattern in _patterns(case.text)


@pytest.mark.parametrize("miss", MISSES, ids=lambda miss: miss.why)
def test_near_miss(miss: HostMiss) -> None:
    assert miss.pattern not in _patterns(miss.text)


@pytest.mark.parametrize("case", [*CASES, *HOST_CASES], ids=lambda case: case.pattern)
def test_decisions_are_of_the_kind_of_their_axis(case: HostCase) -> None:
    assert {d.axis: d.kind for d in _told(case.text)}.items() <= {
        axis: entry.kind for axis, entry in axes().items()
    }.items()
