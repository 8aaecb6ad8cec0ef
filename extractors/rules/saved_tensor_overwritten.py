"""A backward pass writes into what the forward pass saved."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.callers import saved
from extractors.patterns.cases import POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding

_BACKWARD = (
    POINTER
    + """
import torch
@triton.jit
def square_backward(dy, x, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    g = tl.load(dy + at, mask=at < n, other=0.0)
    tl.store(x + at, 2.0 * v * g, mask=at < n)

def gradient(dy, x):
    n = x.numel()
    square_backward[(triton.cdiv(n, 128),)](dy, x, n, 128)
    return x

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, dy):
        x, = ctx.saved_tensors
        return gradient(dy, x)
"""
)


class SavedTensorOverwritten(Rule):
    """A kernel stores into an array that host code takes from the saved tensors of an autograd
    function: another backward pass over the same graph starts from what the first one left."""

    name = "saved-tensor-overwritten"
    dialects = ("triton",)
    matches = (
        Case(_BACKWARD, "`x`"),
        Case(vary(_BACKWARD, ("gradient(dy, x)\n", "gradient(dy, x.view(-1))\n")), "`x`"),
    )
    near_misses = (
        NearMiss(
            vary(_BACKWARD, ("tl.store(x + at", "tl.store(dy + at")),
            why="the gradient that autograd hands over is overwritten, and it is no saved tensor",
        ),
        NearMiss(
            vary(_BACKWARD, ("return gradient(dy, x)", "return gradient(dy, x.clone())")),
            why="a copy is overwritten",
        ),
        NearMiss(
            vary(_BACKWARD, ("    n = x.numel()", "    x = x.clone()\n    n = x.numel()")),
            why="a copy is overwritten",
        ),
    )
    seen = (Seen("liger-kernel", "liger_kernel/ops/swiglu.py", "_swiglu_backward_kernel", 104),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        stores = [access for access in subject.facts.stores if access.array is not None]
        if material is None:
            return
        for launch in material.launches:
            written = dict.fromkeys(access.array for access in stores)
            kept = [name for name in written if name and saved(material, launch, name)]
            if kept:
                names = ", ".join(f"`{name}`" for name in kept)
                yield self.finding(
                    subject,
                    f"{names}: the kernel overwrites what the forward pass saved; a second "
                    "backward pass over the same graph computes with what is left",
                    "write the gradient into memory of its own, or refuse a second pass",
                    [access for access in stores if access.array in kept],
                )
                return
