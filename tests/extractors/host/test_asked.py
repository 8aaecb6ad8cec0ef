"""Where host code asks what the target is."""

from __future__ import annotations

import pytest

from tests.extractors.rules.support import subjects

_TWO = """import torch
import triton
import triton.language as tl

OLD = "Tesla" in torch.cuda.get_device_name(0)

@triton.jit
def one(x, T: tl.constexpr):
    tl.store(x + tl.arange(0, T), 1.0)

@triton.jit
def other(x, T: tl.constexpr):
    tl.store(x + tl.arange(0, T), 2.0)

def run(x):
    T = 64 if OLD else 128
    one[(1,)](x, T=T)

def run_other(x):
    T = 64 if OLD else 128
    other[(1,)](x, T=T)
"""


@pytest.mark.parametrize(("kernel", "line"), [("one", 16), ("other", 20)])
def test_the_launch_of_another_kernel_asks_for_itself(kernel: str, line: int) -> None:
    told = [d for d in subjects(_TWO)[kernel].host.decisions if d.axis == "arch_dispatch"]
    assert [d.lines for d in told] == [((line, line),)]
