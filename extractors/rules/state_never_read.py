"""A forward pass keeps values for the backward pass that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from extractors.host.callers import classes
from extractors.patterns.cases import POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.syntax.nodes import each
from kb.evidence import Finding, Severity

_KEPT = (
    POINTER
    + """
import torch
@triton.jit
def scale(x, out, f, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) * f, mask=at < n)

def run(x, f):
    out = torch.empty_like(x)
    n = x.numel()
    scale[(triton.cdiv(n, 128),)](x, out, f, n, 128)
    return out

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, f):
        ctx.f = f
        ctx.width = x.shape[-1]
        return run(x, f)

    @staticmethod
    def backward(ctx, dy):
        return run(dy, ctx.f), None
"""
)


_SAVED = ("saved_tensors", "saved_variables", "saved_for_backward")


class StateNeverRead(Rule):
    """An attribute that a forward pass writes to its context, or arrays that it saves there, and
    that no code of the module reads."""

    name = "state-never-read"
    dialects = ("triton",)
    matches = (
        Case(_KEPT, "`width`"),
        Case(vary(_KEPT, ("ctx.width = x.shape[-1]", "ctx.save_for_backward(x, f)")), "the arrays"),
    )
    near_misses = (
        NearMiss(
            vary(_KEPT, ("return run(dy, ctx.f)", "return run(dy[: ctx.width], ctx.f)")),
            why="the backward pass reads it",
        ),
        NearMiss(
            vary(
                _KEPT,
                ("ctx.width = x.shape[-1]", "ctx.save_for_backward(x)"),
                (
                    "return run(dy, ctx.f)",
                    "x, = ctx.saved_tensors\n        return run(dy * x, ctx.f)",
                ),
            ),
            why="the backward pass reads what is saved",
        ),
        NearMiss(
            vary(_KEPT, ("return run(dy, ctx.f), None", "return finish(ctx, dy), None")),
            why="the context is handed on to a function that may read it",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/rms_norm.py", "_rms_bwd_kernel", 443),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        told: set[ast.ClassDef] = set()
        for launch in material.sites() if material is not None else ():
            for owner in classes(material, launch) if material is not None else ():
                if owner not in told and material is not None:
                    told.add(owner)
                    unread = _unread(owner, material.tree)
                    if unread:
                        names = ", ".join(unread)
                        yield self.finding(
                            subject,
                            f"`{owner.name}` keeps {names} on its context, and nothing reads "
                            f"{'them' if len(unread) > 1 else 'it'}",
                            "drop what is kept for nothing",
                            [(line, line) for lines in unread.values() for line in lines],
                            Severity.NOTE,
                        )


def _unread(owner: ast.ClassDef, tree: ast.Module) -> dict[str, list[int]]:
    """Attributes that the forward pass of an autograd function writes and that nothing in the
    module reads; none when a context is handed on."""
    methods = {item.name: item for item in owner.body if isinstance(item, ast.FunctionDef)}
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None or not forward.args.args:
        return {}
    if any(_hands_on(method) for method in methods.values()):
        return {}
    context = forward.args.args[0].arg
    read = {node.attr for node in each(tree, ast.Attribute) if isinstance(node.ctx, ast.Load)}
    found: dict[str, list[int]] = {}
    for node in each(forward, ast.Attribute):
        if isinstance(node.ctx, ast.Store) and node.attr not in read:
            if isinstance(node.value, ast.Name) and node.value.id == context:
                found.setdefault(f"`{node.attr}`", []).append(node.lineno)
    saved = [c for c in each(forward, ast.Call) if _is_of(c.func, context, "save_for_backward")]
    if not any(_is_of(n, "", *_SAVED) for m in methods.values() for n in each(m, ast.Attribute)):
        names = dict.fromkeys(f"`{ast.unparse(one)}`" for call in saved for one in call.args)
        if saved:
            found[f"the arrays {', '.join(names)}"] = [call.lineno for call in saved]
    return found


def _is_of(node: ast.expr, owner: str, *names: str) -> bool:
    """Whether a node reads one of the attributes of a name; of any owner when none is given."""
    if not isinstance(node, ast.Attribute) or node.attr not in names:
        return False
    return not owner or (isinstance(node.value, ast.Name) and node.value.id == owner)


def _hands_on(method: ast.FunctionDef) -> bool:
    """Whether the context of a method is used in any other way than for one of its attributes."""
    if not method.args.args:
        return False
    context = method.args.args[0].arg
    owned = {id(n.value) for n in each(method, ast.Attribute)}
    return any(n.id == context and id(n) not in owned for n in each(method, ast.Name))
