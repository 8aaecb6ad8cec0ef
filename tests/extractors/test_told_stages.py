"""What an earlier kernel left in parts and this one adds up is a second stage of its reduction."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import vary
from extractors.told_cases import LEAVE
from extractors.told_stages import ACROSS
from extractors.told_together import told_together
from tests.extractors.rules.support import subject, subjects

JOINED = """
import torch
import triton
import triton.language as tl

@triton.jit
def leave(x, parts, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + tl.program_id(1) * n + at)
    tl.store(parts + tl.program_id(1) * n + at, v * v)

@triton.jit
def join(parts, out, n, P: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    total = tl.zeros([T], tl.float32)
    for p in range(P):
        total += tl.load(parts + p * n + at)
    tl.store(out + at, total)

def host(x, like):
    make = torch.zeros if x.is_cuda else torch.empty
    n = x.shape[1]
    parts = make((x.shape[0], n), device=x.device)
    out = make(like.shape, device=x.device)
    leave[(n // 64, x.shape[0])](x, parts, n, T=64)
    join[(n // 64,)](parts, out, n, P=x.shape[0], T=64)
    return out
"""
CENTRED = vary(
    JOINED,
    ("    tl.store(out + at, total)", "    tl.store(out + at, total - tl.load(parts + at))"),
    ("total += tl.load(parts + p * n + at)", "v = tl.load(parts + p * n + at)\n"
     "        total += v\n        tl.store(out + p * n + at, v)"),
)  # fmt: skip
ALONE = vary(JOINED, ("    leave[(n // 64, x.shape[0])](x, parts, n, T=64)\n", ""))


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        pytest.param(JOINED, {ACROSS}, id="added up"),
        pytest.param(CENTRED, set[str](), id="the parts are stored, too"),
        pytest.param(ALONE, set[str](), id="no kernel before"),
    ],
)
def test_second_stage(text: str, axes: set[str]) -> None:
    found = subject(text)
    rows = told_together(detect(found.facts.kernel, found.host), found.host)
    told = [d for d in rows if "second kernel" in d.value]
    assert {d.axis for d in told} == axes
    assert all(d.subject == "parts" for d in told)


BOTH = vary(
    LEAVE,
    ("def join(parts, out,", "def join(parts, twice, out,"),
    ("tl.exp(tl.load(parts + at))", "tl.load(parts + at) + tl.load(twice + at)"),
    ("(parts, out, T=64)", "(parts, twice, out, T=64)"),
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(LEAVE, ["parts"], id="one of two"),
        pytest.param(BOTH, [], id="the later kernel takes both"),
        pytest.param(JOINED, [], id="nothing else is stored"),
        pytest.param(LEAVE.partition("class")[0], [], id="no backward pass"),
    ],
)
def test_left_beside(text: str, told: list[str]) -> None:
    found = subjects(text)["leave"]
    rows = told_together(detect(found.facts.kernel, found.host), found.host)
    assert [d.subject for d in rows if d.value == "for a later kernel"] == told
