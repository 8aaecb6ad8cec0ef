"""Casts of whole arrays by torch belong to how a kernel's values are cast."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import vary
from extractors.patterns.io_cast import IoCast
from extractors.told_casts import BY_HOST, with_host_casts
from kb.evidence import Lines
from tests.extractors.rules.support import subject

_TWICE = """import torch
import triton
import triton.language as tl

@triton.jit
def twice(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, v * 2.0, mask=at < n)

def run(x):
    wide = x.float()
    out = torch.empty_like(wide)
    twice[(4,)](wide, out, x.numel(), T=16)
    again = out
    return again.to(x.dtype)
"""


_CALLED = vary(
    _TWICE,
    ("    wide = x.float()\n    out = torch.empty_like(wide)\n    twice[(4,)](wide,",
     "    out = torch.empty_like(x)\n    twice[(4,)](x,"),
    ("    again = out\n    return again.to(x.dtype)\n",
     "    return out\n\ndef outer(x):\n    y = run(x)\n    return y.to(torch.float16)\n"),
)  # fmt: skip
_TYPED = vary(_CALLED, ("empty_like(x)", "empty_like(x, dtype=torch.float32)"))


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        pytest.param(_TWICE, ((12, 12), (16, 16)), id="before and after"),
        pytest.param(
            vary(_TWICE, ("x.float()", "x.contiguous()")), ((16, 16),), id="only the result"
        ),
        pytest.param(
            vary(_TWICE, ("to(x.dtype)", "to(x.device)")), ((12, 12),), id="only the input"
        ),
        pytest.param(
            vary(_TWICE, ("to(x.dtype)", "view(-1)"), ("x.float()", "x.view(-1)")), (), id="none"
        ),
        pytest.param(
            vary(_TWICE, ("(wide, out,", "(x, out,"), ("again = out", "again = wide")),
            (),
            id="of an array that the kernel is not given",
        ),
        pytest.param(_CALLED, ((18, 18),), id="where the function is called"),
        pytest.param(
            vary(_CALLED, ("    return out\n", "    return x\n")), (), id="of another result"
        ),
        pytest.param(_TYPED, ((12, 12), (18, 18)), id="made in a type of its own"),
    ],
)
def test_casts_of_the_host(source: str, lines: tuple[Lines, ...]) -> None:
    found = subject(source)
    detection = detect(found.facts.kernel, found.host)
    (before,) = [d for d in detection.decisions if d.axis == IoCast.axis]
    told = [*with_host_casts(detection.decisions, detection, found.host)]
    (after,) = [d for d in told if d.axis == IoCast.axis]
    assert set(after.lines) == {*before.lines, *lines}
    assert (BY_HOST in after.value) == bool(lines)
    assert len(told) == len(detection.decisions)
