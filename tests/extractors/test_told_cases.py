"""Cases and near misses of patterns that the program and the host tell together."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import HostCase, HostMiss
from extractors.told_cases import CASES, MISSES
from extractors.told_together import told_together
from tests.extractors.rules.support import subjects


def _patterns(text: str) -> set[str]:
    found = subjects(text).values()
    return {d.pattern for s in found for d in told_together(detect(s.facts.kernel, s.host), s.host)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.pattern)
def test_case(case: HostCase) -> None:
    assert case.pattern in _patterns(case.text)


@pytest.mark.parametrize("miss", MISSES, ids=lambda miss: miss.why)
def test_near_miss(miss: HostMiss) -> None:
    assert miss.pattern not in _patterns(miss.text)
