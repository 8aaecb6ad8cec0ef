"""An autograd function has no backward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from extractors.host.callers import classes
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.syntax.nodes import each
from kb.evidence import Finding, Severity

_HOST = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        LAUNCH
        return out

def twice(x):
    return Twice.apply(x)
"""
_POINTER = (
    POINTER
    + """
import torch
@triton.jit
def double(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) * 2.0, mask=at < n)
"""
    + vary(_HOST, ("LAUNCH", "double[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)"))
)
_TILED = (
    TILE
    + """
import torch
@ct.kernel
def double(x, out):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(64,)) * 2.0)
"""
    + vary(_HOST, ("LAUNCH", "ct.launch(None, (x.numel() // 64, 1, 1), double, (x, out))"))
)
_BACKWARD = (
    "\n\n    @staticmethod\n    def backward(ctx, dy):\n        return dy * 2.0\n\ndef twice"
)


class NoBackward(Rule):
    """The class through which the launch is reached is an autograd function with a forward pass
    alone: a caller that asks for gradients is told so only when the backward pass begins."""

    name = "no-backward"
    matches = (Case(_POINTER, "`Twice`"), Case(_TILED, "`Twice`"))
    near_misses = (
        NearMiss(vary(_POINTER, ("\n\ndef twice", _BACKWARD)), why="it has a backward pass"),
        NearMiss(
            vary(_POINTER, ("(torch.autograd.Function)", "(torch.autograd.Function, Both)")),
            why="another base may have the backward pass",
        ),
        NearMiss(
            vary(_POINTER, ("ctx, x):\n", "ctx, x):\n        ctx.set_materialize_grads(False)\n"
                            "        ctx.mark_non_differentiable(x)\n")),
            why="it says that its results have no gradient",
        ),
    )  # fmt: skip
    seen = (Seen("tilegym", "tilegym/ops/cutile/softmax.py", "_softmax_kernel", 350),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        told: set[ast.ClassDef] = set()
        for launch in material.sites() if material is not None else ():
            for owner in classes(material, launch) if material is not None else ():
                if owner in told or material is None or not _forward_only(owner):
                    continue
                told.add(owner)
                yield self.finding(
                    subject,
                    f"`{owner.name}` is an autograd function without a backward pass: results look "
                    "differentiable, and the error comes when gradients are asked for",
                    "write the backward pass, or mark the results as not differentiable",
                    [(owner.lineno, owner.lineno), *_appliers(material.tree, owner.name)],
                    Severity.NOTE,
                )


def _forward_only(owner: ast.ClassDef) -> bool:
    methods = {item.name for item in owner.body if isinstance(item, ast.FunctionDef)}
    base = ast.unparse(owner.bases[0]) if len(owner.bases) == 1 else ""
    marks = any(one.attr == "mark_non_differentiable" for one in each(owner, ast.Attribute))
    own = {t.id for item in owner.body if isinstance(item, ast.Assign) for t in item.targets
           if isinstance(t, ast.Name)}  # fmt: skip
    return (
        base.endswith("autograd.Function")
        and "forward" in methods
        and not {"backward", "vjp"} & (methods | own)
        and not marks
    )


def _appliers(tree: ast.Module, name: str) -> list[tuple[int, int]]:
    """Functions that apply an autograd function, from their head to the call."""
    return [
        (node.lineno, max(call.lineno for call in calls))
        for node in each(tree, ast.FunctionDef)
        if (
            calls := [
                one
                for one in each(node, ast.Attribute)
                if one.attr == "apply" and isinstance(one.value, ast.Name) and one.value.id == name
            ]
        )
    ]
