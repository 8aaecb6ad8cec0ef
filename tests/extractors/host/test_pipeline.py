"""Arrays that pass between kernels through functions of other modules, and gradients that the
forward pass saves."""

from __future__ import annotations

import pytest

from extractors.host.passes import AHEAD, HANDED_ON, LEFT, TAKEN
from tests.extractors.host.conftest import Read

SUMS = """
import triton

@triton.jit
def k_sums(x, out):
    pass

def _run(x):
    out = x.new_empty(x.shape)
    k_sums[(x.shape[0],)](x, out)
    return out

def sums(x):
    return _run(x)

def shape_of(x):
    return x.shape
"""
MAIN = """
import torch
import triton
from pkg.sums import sums, shape_of

@triton.jit
def k_main(a, x, out):
    pass

def host(a, x):
    out = torch.empty_like(x)
    a = sums(a)
    k_main[(4,)](a, x, out)
    return out

def both(a, x):
    out = host(a, x)
    return out
"""
AFTER = MAIN.replace(
    "    out = host(a, x)\n    return out", "    y = host(a, x)\n    return sums(y)"
)
LOSS = """
import torch
import triton

@triton.jit
def k_loss(x, loss, grad):
    pass

def loss_and_gradient(x):
    loss = torch.empty_like(x)
    grad = torch.empty_like(x)
    k_loss[(4,)](x, loss, grad)
    return loss, grad

def scaled(grad, up):
    if torch.equal(up, torch.tensor(1.0)):
        return grad
    return grad * up

class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        loss, grad = loss_and_gradient(x)
        ctx.save_for_backward(grad)
        return loss

    @staticmethod
    def backward(ctx, up):
        (grad,) = ctx.saved_tensors
        return scaled(grad, up)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(MAIN, {(TAKEN, "a")}, id="made by a kernel of another module"),
        pytest.param(MAIN.replace("sums(a)", "sums(a).view(-1)"), {(TAKEN, "a")}, id="a view"),
        pytest.param(
            MAIN.replace("from pkg.sums", "from .sums"), {(TAKEN, "a")}, id="by a relative name"
        ),
        pytest.param(
            MAIN.replace("from pkg.sums", "from pkg.again"), {(TAKEN, "a")}, id="passed on"
        ),
        pytest.param(AFTER, {(TAKEN, "a"), (LEFT, "out")}, id="given back and handed on"),
        pytest.param(MAIN.replace("= sums(a)", "= shape_of(a)"), set(), id="no kernel"),
        pytest.param(
            MAIN.replace(
                "    a = sums(a)\n    k_main[(4,)](a, x, out)\n",
                "    if a is x:\n        k_main[(4,)](a, x, out)\n"
                "    else:\n        out = sums(out)\n",
            ),
            set(),
            id="one or the other",
        ),
        pytest.param(MAIN.replace("a = sums(a)", "y = sums(a)"), set(), id="another name"),
    ],
)
def test_arrays_through_functions_of_the_package(
    read: Read, text: str, expected: set[tuple[str, str]]
) -> None:
    again = "from .sums import sums, shape_of\n"
    facts = read(text, "k_main", pkg__sums=SUMS, pkg__again=again)
    told = {(d.value, d.subject) for d in facts.decisions if d.pattern == HANDED_ON}
    assert told == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(LOSS, {"grad"}, id="saved and multiplied"),
        pytest.param(
            LOSS.replace("return scaled(grad, up)", "grad *= up\n        return grad"),
            {"grad"},
            id="multiplied in place",
        ),
        pytest.param(LOSS.replace("grad * up", "torch.exp(grad) * up"), set(), id="more is done"),
        pytest.param(LOSS.replace("grad * up", "grad"), set(), id="nothing is multiplied"),
        pytest.param(
            LOSS.replace("save_for_backward(grad)", "save_for_backward(up)"), set(), id="not saved"
        ),
        pytest.param(
            LOSS.replace("return scaled(", "return loss_and_gradient("), set(), id="a kernel runs"
        ),
    ],
)
def test_gradient_saved_by_the_forward_pass(read: Read, text: str, expected: set[str]) -> None:
    facts = read(text, "k_loss")
    assert {d.subject for d in facts.decisions if d.pattern == AHEAD} == expected
