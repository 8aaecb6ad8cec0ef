"""A gradient that a forward pass saves, stored beside what that pass returns."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.host.passes import APART
from extractors.host.samples import vary
from extractors.host.saved import INPUTS
from extractors.patterns.loss_with_gradient import BOTH
from extractors.told_backward import TOGETHER
from extractors.told_together import told_together
from tests.extractors.rules.support import subject

TEXT = """
import torch, triton
import triton.language as tl

@triton.jit
def apart(x, y, loss, grad, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = row * n + tl.arange(0, T)
    d = tl.load(x + at) - tl.load(y + at)
    tl.store(loss + at, tl.abs(d))
    tl.store(grad + at, tl.where(d > 0, 1.0, -1.0))

class Apart(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        loss = torch.empty_like(x)
        grad = torch.empty_like(x)
        apart[(x.shape[0],)](x, y, loss, grad, x.shape[1], T=1024)
        ctx.save_for_backward(grad)
        return loss.sum()

    @staticmethod
    def backward(ctx, out):
        (grad,) = ctx.saved_tensors
        return grad * out, None
"""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param((), True, id="loss and gradient"),
        pytest.param(
            (("save_for_backward(grad)", "save_for_backward(x)"),), False, id="input kept"
        ),
        pytest.param((("    tl.store(loss + at, tl.abs(d))\n", ""),), False, id="gradient alone"),
        pytest.param((("tl.abs(d)", "tl.zeros([T], tl.float32)"),), False, id="zeros beside"),
    ],
)
def test_gradient_ahead(changes: tuple[tuple[str, str], ...], told: bool) -> None:
    found = subject(vary(TEXT, *changes))
    decisions = told_together(detect(found.facts.kernel, found.host), found.host)
    assert any(d.axis == "fusion" and d.value == BOTH for d in decisions) is told


ALONE = """
import torch, triton
import triton.language as tl

@triton.jit
def back(p, dp, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    a = tl.load(p + row * n + at)
    b = tl.load(dp + row * n + at)
    tl.store(out + row * n + at, a * (b - tl.sum(a * b, axis=0)))

def host(p, dp):
    out = torch.empty_like(p)
    back[(p.shape[0],)](p, dp, out, p.shape[1], T=1024)
    return out
"""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param((), True, id="gradient of a softmax"),
        pytest.param((("a * (b - tl.sum(a * b, axis=0))", "a * b"),), False, id="a product"),
        pytest.param((("    back[(p.shape[0],)]", "    other[(p.shape[0],)]"),), False,
                     id="no launch"),
    ],
)  # fmt: skip
def test_gradient_alone(changes: tuple[tuple[str, str], ...], told: bool) -> None:
    found = subject(vary(ALONE, *changes))
    decisions = told_together(detect(found.facts.kernel, found.host), found.host)
    assert any(d.value == APART for d in decisions) is told


THREADS = """__global__ void back(const float* x, const float* dy, float* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 1.0f / (1.0f + expf(-x[i]));
    if (i < n) dx[i] = dy[i] * s * (1.0f - s);
}
void run(const float* x, const float* dy, float* dx, int n) { back<<<n, 32>>>(x, dy, dx, n); }
"""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param((), True, id="derivative"),
        pytest.param(((" * (1.0f - s)", ""),), False, id="a gate"),
    ],
)
def test_gradient_alone_of_threads(changes: tuple[tuple[str, str], ...], told: bool) -> None:
    found = read_cuda(vary(THREADS, *changes), "k.cu")
    (kernel,), host = found.kernels, host_facts(found)["back"]
    decisions = told_together(detect(kernel, host), host)
    assert any(d.value == APART for d in decisions) is told


_TAKEN = """
import torch, triton
import triton.language as tl

@triton.jit
def back(x, g, out, n, T: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at) * tl.load(g + at))

@triton.jit
def ahead(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, T)
    tl.store(out + at, tl.sigmoid(tl.load(x + at)))

class Taken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        ahead[(x.shape[0],)](x, out, x.shape[1], T=1024)
        ctx.save_for_backward(x)
        return out

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        back[(x.shape[0],)](x, g, out, x.shape[1], T=1024)
        return out
"""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param((), True, id="a function of inputs"),
        pytest.param((("tl.sigmoid(tl.load(x + at))", "tl.load(x + at) * 2.0"),), False, id="none"),
        pytest.param((("backward(x)", "backward(out)"),), False, id="result saved"),
    ],
)
def test_inputs_saved(changes: tuple[tuple[str, str], ...], told: bool) -> None:
    found = subject(vary(_TAKEN, *changes))
    decisions = told_together(detect(found.facts.kernel, found.host), found.host)
    assert any(d.axis == "recompute" and d.value == INPUTS for d in decisions) is told


_BACK = """
import torch, triton
import triton.language as tl

@triton.jit
def ahead(x, w, y, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(y + at, tl.exp(tl.load(x + at)) * tl.load(w + at))

@triton.jit
def back(g, x, w, dx, dw, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    e = tl.exp(tl.load(x + at))
    up = tl.load(g + at)
    tl.store(dx + at, up + e)
    tl.store(dw + at, tl.load(w + at) - up)

class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        y = torch.empty_like(x)
        ahead[(x.numel() // 128,)](x, w, y, T=128)
        ctx.save_for_backward(x, w)
        return y

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        dx = torch.empty_like(x)
        dw = torch.empty_like(w)
        back[(x.numel() // 128,)](g, x, w, dx, dw, T=128)
        return dx, dw
"""
_ONE = vary(_BACK, ("    tl.store(dw + at, tl.load(w + at) - up)\n", ""))
_OF_GRADIENT = vary(_BACK, ("tl.exp(tl.load(x + at))\n    up", "tl.exp(tl.load(g + at))\n    up"))


@pytest.mark.parametrize(
    ("text", "together", "again"),
    [
        pytest.param(_BACK, 1, 1, id="two gradients, an exponential of what was saved"),
        pytest.param(_ONE, 0, 1, id="one gradient"),
        pytest.param(_OF_GRADIENT, 1, 0, id="an exponential of what flows back"),
    ],
)
def test_a_kernel_of_the_backward_pass(text: str, together: int, again: int) -> None:
    found = subject(text)
    rows = told_together(detect(found.facts.kernel, found.host), found.host)
    assert [d.axis for d in rows if d.value == TOGETHER] == ["fusion"] * together
    assert [d.axis for d in rows if d.value == "recompute activation"] == ["recompute"] * again
    places = {at for d in rows if d.axis == "kernel_boundaries" for at, _ in d.lines}
    stores = {at for at, one in enumerate(text.splitlines(), 1) if "tl.store(d" in one}
    assert (stores <= places) is bool(together)


READ = """
import torch, triton
import triton.language as tl

@triton.jit
def ahead(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)

@triton.jit
def back(kept, dy, dx, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(kept + at, mask=at < n)
    tl.store(dx + at, v * tl.load(dy + at, mask=at < n), mask=at < n)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        out = torch.empty_like(x)
        ahead[(4,)](x, out, x.numel(), T=1024)
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx, dy):
        x, out = ctx.saved_tensors
        dx = torch.empty_like(x)
        back[(4,)](out, dy, dx, x.numel(), T=1024)
        return dx, None
"""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param((), True, id="the result"),
        pytest.param((("back[(4,)](out,", "back[(4,)](x,"),), False, id="an input"),
        pytest.param((("back[(4,)](out,", "back[(4,)](dy,"),), False, id="what flows back"),
        pytest.param((("(x, out)\n", "(out, w)\n"),), False, id="an input in its place"),
    ],
)
def test_results_read_back(changes: tuple[tuple[str, str], ...], told: bool) -> None:
    found = subject(vary(READ, *changes))
    decisions = told_together(detect(found.facts.kernel, found.host), found.host)
    values = {d.value for d in decisions if d.axis == "recompute"}
    assert ("results of the forward pass read back" in values) is told


_ROUNDS = vary(
    _BACK,
    ("dx, dw, T: tl.constexpr):", "dx, dw, n, T: tl.constexpr):"),
    ("    e = tl.exp(tl.load(x + at))\n    up = tl.load(g + at)\n",
     "    e = tl.exp(tl.load(x + at))\n    up = tl.zeros([T], tl.float32)\n"
     "    for i in range(n):\n        up += tl.load(g + i * T + at)\n"),
    ("dx, dw, T=128)", "dx, dw, 8, T=128)"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(_ROUNDS, True, id="summed and stored by one block"),
        pytest.param(_BACK, False, id="nothing is summed"),
        pytest.param(
            vary(_ROUNDS, ("tl.store(dw + at, ", "tl.atomic_add(dw + at, ")), False, id="an atomic"
        ),
        pytest.param(vary(_ROUNDS, ("        back[", "        ahead["), (
            "(g, x, w, dx, dw, 8, T=128)", "(x, w, dx, T=128)")), False, id="never launched"),
    ],
)  # fmt: skip
def test_sums_that_blocks_own(text: str, told: bool) -> None:
    found = subject(text)
    rows = told_together(detect(found.facts.kernel, found.host), found.host)
    owned = [d for d in rows if d.axis == "cross_cta_reduction"]
    assert any(d.value == "exclusive ownership" for d in owned) is told
