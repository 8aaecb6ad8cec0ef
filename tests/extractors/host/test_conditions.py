"""What the host checks before a launch is told one condition at a time, where it is asked for."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import POINTER
from tests.extractors.rules.support import subject

_KERNEL = (
    POINTER
    + """
import torch
@triton.jit
def copy(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)
"""
)
_CHECKS = (
    _KERNEL
    + """
def prepared(x, heads, groups):
    if not x.is_contiguous() or x.ndim > 4:
        raise ValueError("layout")
    if heads % groups:
        raise ValueError(
            "heads"
        )
    return torch.empty_like(x)

def run(x, heads, groups):
    out = prepared(x, heads, groups)
    n = x.numel()
    if n < 16 or n % 2 == 1 or x.device.type != "cuda":
        return x.clone()
    copy[(triton.cdiv(n, 128),)](x, out, n, 128)
    return out
"""
)


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        pytest.param("x.is_contiguous", (11, 12), id="one of two, in words of a property"),
        pytest.param("x.ndim <= 4", (11, 12), id="the other of two"),
        pytest.param("heads % groups == 0", (13, 16), id="a remainder as a truth, in a helper"),
        pytest.param("x.numel >= 16", (22, 22), id="a branch that leaves, where it is asked for"),
    ],
)
def test_what_is_checked(expression: str, lines: tuple[int, int]) -> None:
    found = {c.expression: c for c in subject(_CHECKS).host.constraints}
    assert expression in found, sorted(found)
    assert found[expression].lines == lines


def test_a_rank_holds_on_the_side_that_asks_for_it() -> None:
    text = (
        _KERNEL
        + """
def run(x):
    if x.dim() == 2:
        m, n = x.shape
    elif x.dim() == 1:
        (n,) = x.shape
        m = 1
    else:
        raise ValueError(x.dim())
    out = torch.empty_like(x)
    copy[(triton.cdiv(m * n, 128),)](x, out, m * n, 128)
    return out
"""
    )
    assert "x.ndim == 2" not in {c.expression for c in subject(text).host.constraints}


def test_what_one_function_says_of_an_argument_is_not_told_of_another() -> None:
    text = (
        _KERNEL
        + """
def flat(x, block: int = 128):
    assert x.size(-1) % block == 0
    out = torch.empty_like(x)
    copy[(x.numel() // block,)](x, out, x.numel(), T=block)
    return out

def table(x):
    rows, cols = x.size()
    return torch.empty(rows, cols)
"""
    )
    found = [c.expression for c in subject(text).host.constraints]
    assert found == ["x.shape[-1] % T == 0"]


_GIVEN = (
    _KERNEL
    + """
def run(x, lengths=None, mode="sum"):
    if lengths is not None:
        if x.shape[0] != 1:
            raise ValueError("one batch")
    if mode == "mean":
        assert x.ndim == 2
    out = torch.empty_like(x)
    copy[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), 128)
    return out
"""
)


def test_a_check_on_a_further_condition_is_told_with_it() -> None:
    found = {c.expression: c for c in subject(_GIVEN).host.constraints}
    assert found["lengths == None or x.shape[0] == 1"].lines == (12, 13)
    assert found["mode != 'mean' or x.ndim == 2"].checked_by_host


def test_a_check_on_a_way_that_the_launch_does_not_take_is_not_told() -> None:
    text = _GIVEN.replace(
        "    out = torch", '    if mode == "mean":\n        return x\n    out = torch'
    )
    assert not [c for c in subject(text).host.constraints if "x.ndim" in c.expression]


_OUTSIDE = (
    _KERNEL
    + """
def move(a, size):
    out = torch.empty_like(a)
    copy[(triton.cdiv(size, 128),)](a, out, size, 128)
    return out

class Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx, b, kept, other):
        if b.ndim != 2:
            raise ValueError("axes")
        assert kept is None or kept.shape == b.shape
        if kept is not None:
            assert other == 0
        return move(b, b.numel())

    @staticmethod
    def backward(ctx, g):
        return move(g, g.numel())
"""
)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("x.ndim == 2", id="in the names of the kernel"),
        pytest.param("kept == None or kept.shape == x.shape", id="what is not handed over"),
        pytest.param("kept == None or other == 0", id="with the condition of the check"),
    ],
)
def test_what_a_caller_checks(expression: str) -> None:
    found = [c.expression for c in subject(_OUTSIDE).host.constraints]
    assert expression in found, sorted(found)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("return move(b, b.numel())", "return b.clone()", "the launch is not called"),
        (
            'raise ValueError("axes")',
            "return b.clone()",
            "a branch that leaves is no demand, and another caller has none",
        ),
        ("b, kept, other", "b, a, kept, other", "untouched"),
    ],
)
def test_what_a_caller_does_not_demand(old: str, new: str, why: str) -> None:
    text = _OUTSIDE.replace(old, new).replace("def backward(", "def later(")
    if why == "untouched":
        text = text.replace("b.ndim != 2", "a.ndim != 2")
    found = [c.expression for c in subject(text).host.constraints]
    assert not any("ndim" in one for one in found), (why, found)


_PASSES = (
    _OUTSIDE.replace("return move(g, g.numel())", "return back(g)")
    + """
@triton.jit
def turn(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, -tl.load(x + at, mask=at < n), mask=at < n)

def back(g):
    out = torch.empty_like(g)
    turn[(triton.cdiv(g.numel(), 128),)](g, out, g.numel(), 128)
    return out
"""
)


def test_what_the_forward_pass_refuses_never_comes_to_the_backward_pass() -> None:
    found = [c.expression for c in subject(_PASSES).host.constraints]
    assert "b.ndim == 2" in found, sorted(found)


def test_a_class_without_a_backward_pass_says_nothing_of_others() -> None:
    text = _PASSES.replace("def backward(ctx, g)", "def other(ctx, g)")
    assert not any("ndim" in c.expression for c in subject(text).host.constraints)


_APPLIED = (
    _PASSES
    + """
def moved(c):
    if c.shape[-1] > 256:
        raise ValueError("width")
    out = Move.apply(c, None, 0)
    assert c.shape[0] % 7 == 0
    return out
"""
)


def test_what_is_refused_before_the_forward_pass_never_comes_to_the_backward_pass() -> None:
    found = [c.expression for c in subject(_APPLIED).host.constraints]
    assert "c.shape[-1] <= 256" in found, sorted(found)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("c.shape[0] % 7", "c.shape[0] % 7", "it is asked after the forward pass"),
        ("Move.apply(c, None, 0)", "c.clone()", "nothing is applied"),
    ],
)
def test_what_is_not_asked_before_the_forward_pass(old: str, new: str, why: str) -> None:
    found = [c.expression for c in subject(_APPLIED.replace(old, new)).host.constraints]
    told = "% 7" if old == new else "256"
    assert not any(told in one for one in found), (why, found)
