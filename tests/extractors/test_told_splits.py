"""The number of parts of a split reduction is told with the search or the rule that chooses it."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import vary
from extractors.patterns.cases_split import SPLIT_PACKED_POINTER
from extractors.told_splits import AXIS
from extractors.told_together import told_together
from tests.extractors.rules.support import subject

_SEARCH = """@triton.autotune(
    configs=[
        triton.Config({"TM": 16, "TN": 64, "TK": 64, "PARTS": p}, num_warps=4) for p in (1, 2, 4)
    ],
    key=["K"],
    reset_to_zero=["out"],
)
@triton.jit
"""
_HOST = """
import torch

def host(a, b, scales):
    out = torch.zeros((a.shape[0], b.shape[1]), device=a.device)
    product[lambda m: (a.shape[0] // m["TM"] * (b.shape[1] // m["TN"]), m["PARTS"])](
        a, b, scales, out, a.shape[0], b.shape[1], a.shape[1]
    )
    return out
"""
SEARCHED = vary(SPLIT_PACKED_POINTER, ("@triton.jit\n", _SEARCH)) + _HOST
RULED = (
    SPLIT_PACKED_POINTER
    + _HOST.replace(
        '        a, b, scales, out, a.shape[0], b.shape[1], a.shape[1]\n',
        "        a, b, scales, out, a.shape[0], b.shape[1], a.shape[1],\n"
        "        TM=16, TN=64, TK=64, PARTS=1 if a.shape[0] > 64 else 8,\n",
    )
)  # fmt: skip
WHOLE = vary(SEARCHED, ("    k = z * TK +", "    k ="), ("out + m", "out + z + m"))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param(SEARCHED, {"tuned"}, id="searched"),
        pytest.param(RULED, {"host rule"}, id="by a rule"),
        pytest.param(WHOLE, set[str](), id="nothing is split"),
    ],
)
def test_number_of_parts(text: str, values: set[str]) -> None:
    found = subject(text)
    rows = told_together(detect(found.facts.kernel, found.host), found.host)
    told = [d for d in rows if d.axis == AXIS]
    assert {d.value for d in told} == values
    assert all(d.subject == "PARTS" for d in told)
