"""What a host test comes to is read in the functions that it calls, and in what runs after it."""

from __future__ import annotations

import pytest

from tests.extractors.host.conftest import Read

_TEXT = """import torch
import triton
@triton.jit
def k(x, n, BLOCK: "tl.constexpr"):
    pass
@triton.jit
def other(x, n, BLOCK: "tl.constexpr"):
    pass
def old(x):
    return torch.cuda.get_device_capability(x.device) < (9, 0)
def fits(x, n):
    if old(x):
        return False
    if n > 4096:
        return False
    return n % 16 == 0
def run(x):
    n = x.shape[-1]
    if fits(x, n):
        return k[(x.shape[0],)](x, n, BLOCK=64)
    return other[(x.shape[0],)](x, n, BLOCK=64)
"""
_INSIDE = _TEXT.replace(
    "    if fits(x, n):\n        return k[(x.shape[0],)](x, n, BLOCK=64)\n",
    "    if x.is_cuda:\n        if fits(x, n):\n"
    "            return k[(x.shape[0],)](x, n, BLOCK=64)\n",
)
_BOUND = _TEXT.replace("    if fits(x, n):", "    good = fits(x, n)\n    if good:")
_HANDED = (
    _TEXT.replace("def run(x):", "def run(x, instead):")
    .replace("other[(x.shape[0],)](x, n, BLOCK=64)", "instead(x, n)")
)  # fmt: skip
_NO_GATE = _TEXT.replace("        return False\n    if n", "        raise ValueError\n    if n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_TEXT, id="asked at once"),
        pytest.param(_INSIDE, id="what follows stands outside"),
        pytest.param(_BOUND, id="the answer has a name"),
        pytest.param(_HANDED, id="the other way is handed in"),
    ],
)
def test_a_gate_is_told_with_its_tests(read: Read, text: str) -> None:
    lines = {d.axis: {at[0] for at in d.lines} for d in read(text).decisions}
    assert {14, 16} <= lines["algorithm_selection"]
    assert 10 in lines["arch_dispatch"]
    assert 14 not in lines["arch_dispatch"]


def test_a_refusal_is_no_answer(read: Read) -> None:
    told = [d for d in read(_NO_GATE).decisions if d.pattern == "kernel-chosen-by-the-target"]
    assert not told
