"""The width of an access is told with the lines where the elements of a vector are counted."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from extractors.host.samples import vary
from extractors.patterns.cases_vectors import VECTORS_COUNTED
from extractors.patterns.vector_access import VectorAccess
from kb.analysis.facts import Facts

_HALVES = vary(
    VECTORS_COUNTED,
    ("constexpr int wide = 16;", "constexpr int wide = 16 / sizeof(half);"),
    ("template <typename T>\n", ""),
    ("    constexpr int many = wide / sizeof(T);\n", ""),
    ("const T* x, T* out", "const half* x, half* out"),
    ("* many", "* wide"),
)
_OTHER = vary(VECTORS_COUNTED, ("wide = 16", "wide = 8"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(VECTORS_COUNTED, {1, 4, 6}, id="size of an open type"),
        pytest.param(_HALVES, {1, 4}, id="worked out by the reader"),
        pytest.param(_OTHER, {6}, id="other vectors"),
    ],
)
def test_where_elements_are_counted(text: str, lines: set[int]) -> None:
    facts = Facts(read_cuda(text, "case.cu").kernels[0])
    [found] = [d for d in VectorAccess().find(facts) if d.value == "128-bit"]
    assert {line for line, _ in found.lines} == lines
