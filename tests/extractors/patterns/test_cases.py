"""Every pattern against its own cases: it sees what it claims, and does not see its near misses."""

from __future__ import annotations

from functools import cache

import pytest

from extractors.cuda.read import read_cuda
from extractors.modules import ModuleText
from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.registry import patterns
from extractors.read import read
from kb.analysis.facts import Facts

EXPECTED = 307
"""Patterns of the folder; a file that is not collected changes this number."""


@cache
def facts(text: str) -> Facts:
    threads = "__global__" in text
    found = read_cuda(text, "case.cu") if threads else read(ModuleText("", "case.py", text))
    kernels = found.kernels
    assert kernels, "a case holds no kernel"
    return Facts(kernels[-1])


def test_every_pattern_is_collected() -> None:
    assert len(patterns()) == EXPECTED


@pytest.mark.parametrize(
    ("pattern", "case"),
    [
        pytest.param(p, case, id=f"{p.name}-{number}")
        for p in patterns()
        for number, case in enumerate(p.matches)
    ],
)
def test_match(pattern: Pattern, case: Case) -> None:
    found = list(pattern.find(facts(case.text)))
    assert found, f"{pattern.name} sees nothing"
    assert all(d.axis == pattern.axis and d.pattern == pattern.name and d.lines for d in found)
    if case.value is not None:
        assert case.value in {d.value for d in found}


@pytest.mark.parametrize(
    ("pattern", "miss"),
    [
        pytest.param(p, miss, id=f"{p.name}-{number}")
        for p in patterns()
        for number, miss in enumerate(p.near_misses)
    ],
)
def test_near_miss(pattern: Pattern, miss: NearMiss) -> None:
    values = {d.value for d in pattern.find(facts(miss.text))}
    assert miss.why
    if miss.value is None:
        assert not values
    else:
        assert miss.value not in values


@pytest.mark.parametrize("missing", ["name", "axis", "source", "matches", "near_misses"])
def test_a_pattern_without_its_parts_is_refused(missing: str) -> None:
    parts: dict[str, object] = {
        "name": "x", "axis": "y", "source": "z", "matches": (Case("text"),),
        "near_misses": (NearMiss("text", why="because"),),
    }  # fmt: skip
    del parts[missing]
    with pytest.raises(TypeError, match=missing):
        type("Incomplete", (Pattern,), parts)
