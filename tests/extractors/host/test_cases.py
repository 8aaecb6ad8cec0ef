"""Host decisions against their own cases: seen where they are, not seen where they only seem to
be."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from api.extract import signature_of
from extractors.host.cases import CASES, MISSES, HostCase, HostMiss
from extractors.host.modules import TextLoader
from extractors.host.read import read_host
from extractors.modules import ModuleText
from extractors.read import read
from kb.evidence import Decision
from kb.graph.vocabulary import axes, patterns


@cache
def decided(text: str) -> tuple[Decision, ...]:
    found = read(ModuleText("pkg.main", "pkg/main.py", text))
    signatures = {kernel.name: signature_of(kernel) for kernel in found.kernels}
    assert signatures, "a case holds no kernel"
    facts = read_host(
        ast.parse(text), path="pkg/main.py", kernels=signatures, loader=TextLoader({})
    )
    return facts[found.kernels[-1].name].decisions


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.pattern)
def test_host_decision_is_seen(case: HostCase) -> None:
    own = [d for d in decided(case.text) if d.pattern == case.pattern]
    assert own, f"{case.pattern} sees nothing"
    assert all(d.lines for d in own)
    assert case.value is None or case.value in {d.value for d in own}
    assert all(d.kind is axes()[d.axis].kind for d in own)
    for one in decided(case.text):
        assert patterns()[one.pattern].axis == one.axis, "no such pattern of the axis"


@pytest.mark.parametrize("miss", MISSES, ids=lambda miss: miss.pattern)
def test_host_decision_is_not_seen(miss: HostMiss) -> None:
    values = {d.value for d in decided(miss.text) if d.pattern == miss.pattern}
    assert miss.why
    assert not values if miss.value is None else miss.value not in values
