"""A backward pass writes into what the forward pass saved."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from extractors.host.callers import handed
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.origins import Origins
from extractors.patterns.cases import POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding

MAX_STEPS = 8
"""Names and views that a tensor is followed through."""

_VIEWS = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze", "detach", "view_as"})
"""Methods that give the same memory whenever they can."""

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
        for launch in material.launches if material is not None else ():
            written = dict.fromkeys(access.array for access in stores)
            saved = [name for name in written if name and _saved(material, launch, name)]
            if saved:
                names = ", ".join(f"`{name}`" for name in saved)
                yield self.finding(
                    subject,
                    f"{names}: the kernel overwrites what the forward pass saved; a second "
                    "backward pass over the same graph computes with what is left",
                    "write the gradient into memory of its own, or refuse a second pass",
                    [access for access in stores if access.array in saved],
                )
                return


def _saved(material: Material | None, launch: LaunchRecord, name: str) -> bool:
    """Whether the array that a launch hands over for a parameter is a saved tensor."""
    if material is None or material.origins is None:
        return False
    value = handed(material, launch, name)
    return value is not None and _from_saved(material.origins, value, MAX_STEPS)


def _from_saved(origins: Origins, value: ast.expr, steps: int) -> bool:
    if steps == 0:
        return False
    if isinstance(value, ast.Attribute):
        return value.attr == "saved_tensors"
    if isinstance(value, ast.Subscript):
        return _from_saved(origins, value.value, steps - 1)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr in _VIEWS and _from_saved(origins, value.func.value, steps - 1)
    if isinstance(value, ast.Name):
        assigned, passed = origins.sources(value)
        kept = [made for made in assigned if not _itself(made, value)]
        if assigned:
            through = all(_is_view(made) for made in assigned if made not in kept)
            return bool(kept) and through and all(_from_saved(origins, m, steps - 1) for m in kept)
        return any(_from_saved(origins, made, steps - 1) for made in passed)
    return False


def _itself(made: ast.expr, name: ast.Name) -> bool:
    """`x = x.view(...)`: the name stands for its own earlier value."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        made = made.func.value
    return isinstance(made, ast.Name) and made.id == name.id


def _is_view(made: ast.expr) -> bool:
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        if made.func.attr not in _VIEWS:
            return False
        made = made.func.value
    return isinstance(made, ast.Name)
