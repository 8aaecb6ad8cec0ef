"""Flags that the host computes and branches of the program ask for."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.told_flags import BOTH_PASSES
from extractors.told_together import told_together
from kb.evidence import Decision
from tests.extractors.rules.support import subject


def _told(text: str) -> tuple[Decision, ...]:
    found = subject(text)
    return tuple(told_together(detect(found.facts.kernel, found.host), found.host))


_LAST = """
import cuda.tile as ct
import torch


@ct.kernel
def scale(x, out, COUNT: ct.Constant[int], REST: ct.Constant[bool]):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(128,))
    if REST and i == COUNT - 1:
        v = v * 2
    ct.store(out, index=(i,), tile=v)


def host(x):
    out = torch.empty_like(x)
    n = x.shape[0]
    count = (n + 127) // 128
    ct.launch(torch.cuda.current_stream(), (count, 1, 1), scale, (x, out, count, n % 128 != 0))
    return out
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(("", ""), True, id="a branch asks"),
        pytest.param(("if REST and i", "if i"), False, id="no branch asks"),
    ],
)
def test_branches_on_the_flag_belong_to_what_it_decides(
    change: tuple[str, str], told: bool
) -> None:
    rows = _told(_LAST.replace(*change))
    tails = [row for row in rows if row.axis == "tail_handling"]
    assert [(10, 10) in row.lines for row in tails] == [told]


_BOTH_PASSES = """
import torch
import triton
import triton.language as tl


@triton.jit
def turn(x, s, out, T: tl.constexpr, BACK: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    angle = tl.load(s + at)
    if BACK:
        angle = -angle
    tl.store(out + at, tl.load(x + at) * angle)


def ahead(x, s):
    out = torch.empty_like(x)
    turn[(x.numel() // 128,)](x, s, out, T=128, BACK=False)
    return out


def back(x, s):
    out = torch.empty_like(x)
    turn[(x.numel() // 128,)](x, s, out, T=128, BACK=True)
    return out


class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(s)
        return ahead(x, s)

    @staticmethod
    def backward(ctx, dy):
        (s,) = ctx.saved_tensors
        return back(dy, s), None
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(("", ""), True, id="the passes give other flags"),
        pytest.param(("BACK=True", "BACK=False"), False, id="the passes give the same flag"),
    ],
)
def test_branches_on_the_flag_of_a_pass_belong_to_the_kernel_of_both(
    change: tuple[str, str], told: bool
) -> None:
    rows = _told(_BOTH_PASSES.replace(*change))
    cuts = [row for row in rows if row.value == "backward by the same kernel"]
    assert [(11, 11) in row.lines for row in cuts] == [told]
    structure = [row for row in rows if row.pattern == BOTH_PASSES]
    assert [{(8, 8), (11, 11)} <= {*row.lines} for row in structure] == [True] * told
