"""Which operation a kernel is taken for."""

from __future__ import annotations

import pytest

from kb.analysis.operations import operation_of
from tests.kb.analysis.support import facts

MERGE = """
import triton
import triton.language as tl
@triton.jit
def merge(mid, out, n, s, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    top = -float("inf")
    total = 0.0
    acc = tl.zeros([T], dtype=tl.float32)
    for i in range(n):
        part = tl.load(mid + row * s + i * (T + 1) + at)
        lse = tl.load(mid + row * s + i * (T + 1) + T)
        new = tl.maximum(lse, top)
        old = tl.exp(top - new)
        share = tl.exp(lse - new)
        acc = acc * old + share * part
        total = total * old + share
        top = new
    tl.store(out + row * T + at, acc / total)
"""
GATE = """
import triton
import triton.language as tl
@triton.jit
def gate(x, y, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at)
    tl.store(out + at, v / (1 + tl.exp(-v)) * tl.load(y + at))
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(MERGE, "split_kv_combine", id="partial results one after the other"),
        pytest.param(GATE, "gated_activation", id="one load through a curve times another"),
    ],
)
def test_operation(text: str, name: str) -> None:
    assert operation_of(facts(text)) == name
