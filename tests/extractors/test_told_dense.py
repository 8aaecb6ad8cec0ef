"""Arrays are told to be taken for dense where nothing else says how they lie."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import vary
from extractors.told_dense import GRANTED, WITHOUT
from extractors.told_together import told_together
from tests.extractors.rules.support import subject

_FLAT = """import torch
import triton
import triton.language as tl

@triton.jit
def twice(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, v * 2.0, mask=at < n)

def run(x):
    out = torch.empty_like(x)
    twice[(4,)](x, out, x.numel(), T=16)
    return out
"""
_DENSE = vary(_FLAT, ("    out = torch", "    x = x.contiguous()\n    out = torch"))
_STRIDED = vary(
    _FLAT,
    ("x, out, n, T:", "x, out, n, s, T:"),
    ("x + at, ", "x + at * s, "),
    ("x.numel(), T", "x.numel(), x.stride(0), T"),
)
_NUMBER = vary(
    _FLAT,
    ("    at = tl.program_id(0) * T + tl.arange(0, T)\n", ""),
    ("x + at, mask=at < n, other=0.0", "x"),
    ("out + at, v * 2.0, mask=at < n", "out, v * 2.0"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(_FLAT, [GRANTED], id="flat elements"),
        pytest.param(_DENSE, [], id="made contiguous by the host"),
        pytest.param(_STRIDED, [], id="a stride is handed over"),
        pytest.param(_NUMBER, [], id="single numbers have no layout"),
        pytest.param(_FLAT.partition("\ndef run")[0], [], id="no launch is known"),
    ],
)
def test_arrays_taken_for_dense(text: str, expected: list[str]) -> None:
    found = subject(text)
    told = told_together(detect(found.facts.kernel, found.host), found.host)
    assert [d.value for d in told if d.pattern == WITHOUT] == expected
