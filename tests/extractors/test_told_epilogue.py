"""An epilogue is told with the array that the host makes for an operand that is not given."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import vary
from extractors.patterns.cases import PRODUCT_POINTER
from extractors.told_together import told_together
from tests.extractors.rules.support import subject

BIASED = (
    vary(
        PRODUCT_POINTER,
        ("(a, b, out,", "(a, b, bias, out,"),
        ("    tl.store(out", "    acc += tl.load(bias + n)[None, :]\n    tl.store(out"),
    )
    + """
import torch

def host(a, b, bias=None):
    out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
    if bias is None:
        bias = torch.zeros(b.shape[1], device=a.device)
    grid = (a.shape[0] // 64, b.shape[1] // 64)
    product[grid](
        a, b, bias, out, a.shape[0], b.shape[1], a.shape[1],
        a.stride(0), b.stride(0), out.stride(0), 64, 64, 32,
    )
"""
)


ADDRESSED = vary(
    BIASED,
    ("tl.load(bias + n)", "tl.load(a + n)"),
    ("+ tl.arange(0, TM)", "+ tl.arange(0, TM) + tl.load(bias)"),
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(BIASED, True, id="the bias"),
        pytest.param(ADDRESSED, False, id="an operand of the addresses"),
    ],
)
def test_made_where_none_is_given(text: str, told: bool) -> None:
    found = subject(text)
    rows = told_together(detect(found.facts.kernel, found.host), found.host)
    (epilogue,) = [d for d in rows if d.axis == "epilogue"]
    line = next(i for i, one in enumerate(text.split("\n"), 1) if "torch.zeros" in one)
    assert any(a <= line <= b for a, b in epilogue.lines) is told
