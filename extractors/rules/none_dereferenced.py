# ruff: noqa: E501
"""An argument that may be None is asked for its shape or strides whether it is or not."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from extractors.host.callers import leading
from extractors.host.events import LaunchRecord
from extractors.host.origins import lines_of
from extractors.host.values import Expr
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.syntax.nodes import children, each, walk
from kb.evidence import Finding, Severity

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_INNER = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_SOMETIMES = (*_INNER, ast.With, ast.For, ast.Try)
"""What is inside of these may not be reached, or is looked at by itself."""

_SHIFTED = (
    POINTER
    + """
import torch
@triton.jit
def shift(x, b, out, sb, n, T: tl.constexpr, SHIFT: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    if SHIFT:
        v += tl.load(b + at * sb, mask=at < n, other=0.0)
    tl.store(out + at, v, mask=at < n)

def run(x, bias=None):
    n = x.numel()
    out = torch.empty_like(x)
    shift[(triton.cdiv(n, 128),)](x, bias, out, bias.stride(0), n, 128, bias is not None)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def scale(x, w, out, n: int, T: Int, GIVEN: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(T,))
    if GIVEN:
        v = v * ct.load(w, index=(i,), shape=(T,))
    ct.store(out, index=(i,), tile=v)

def run(x, weight):
    n = weight.shape[0]
    given = 1 if weight is not None else 0
    out = torch.empty_like(x)
    ct.launch(None, (ct.cdiv(n, 128), 1, 1), scale, (x, weight, out, n, 128, given))
    return out
"""
)


class NoneDereferenced(Rule):
    """A host function on the way to the launch asks whether an argument is None, and reads an
    attribute of it on every way: without the argument the call fails before the launch."""

    name = "none-dereferenced"
    matches = (Case(_SHIFTED, "`bias`"), Case(_TILES, "`weight`"))
    near_misses = (
        NearMiss(
            vary(_SHIFTED, ("bias.stride(0),", "bias.stride(0) if bias is not None else 0,")),
            why="it is asked first",
        ),
        NearMiss(
            vary(_SHIFTED, ("    n = x", "    if bias is None:\n        return x\n    n = x")),
            why="None has left by then",
        ),
        NearMiss(
            vary(_SHIFTED, ("    n = x", "    if bias is None:\n        bias = x.new_zeros(1)\n    n = x")),
            why="another array takes its place",
        ),
        NearMiss(
            vary(_SHIFTED, ("    n = x", "    given = bias is not None\n    s = bias.stride(0) if given else 0\n    n = x"),
                 ("bias.stride(0), n, 128, bias is not None", "s, n, 128, given")),
            why="a flag that was made of it is asked first",
        ),
        NearMiss(
            vary(_SHIFTED, (", 128, bias is not None", ", 128, True"), ("bias=None", "bias")),
            why="nothing says that it may be None",
        ),
    )  # fmt: skip

    seen = (Seen("fla-core", "fla/modules/causal_conv1d/ops.py", "causal_conv1d_fwd_kernel", 623),)

    def find(self, subject: Subject) -> Iterator[Finding]:
        material = subject.host.material
        told: set[ast.FunctionDef] = set()
        for launch in material.sites() if material is not None else ():
            for function in leading(material, launch) if material is not None else ():
                if function in told:
                    continue
                told.add(function)
                flags = _flags(launch) if function.name == launch.stack[0] else frozenset()
                for name, asked, read in _read_anyway(function, flags):
                    yield self.finding(
                        subject,
                        f"`{function.name}` {'asks' if asked else 'tells the kernel'} whether "
                        f"`{name}` is None and reads `{ast.unparse(read)}` all the same (line "
                        f"{read.lineno}): without `{name}` the call fails there",
                        "ask first, and give the kernel a zero in its place",
                        [lines_of(read), lines_of(asked) if asked else launch.lines],
                        Severity.WARNING,
                    )


def _flags(launch: LaunchRecord) -> frozenset[str]:
    """Arguments of the host of which the kernel is told whether they are None."""
    found = set()
    for _, value in launch.args:
        asked = value.args[0] if isinstance(value, Expr) and value.op == "not" else value
        one = asked.args[0] if isinstance(asked, Expr) and asked.op == "none" else None
        if isinstance(one, Expr) and one.op == "sym":
            found.add(str(one.args[0]))
    return frozenset(found)


def _read_anyway(
    function: ast.FunctionDef, flags: frozenset[str]
) -> Iterator[tuple[str, ast.AST | None, ast.Attribute]]:
    """Arguments that are compared with None, where unless the kernel alone is told, and where an
    attribute is read on every way."""
    given = function.args
    for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        asked = next((one for one in each(function, ast.Compare) if _asks(one, arg.arg)), None)
        if asked is None and arg.arg not in flags:
            continue
        read = _always(function.body, arg.arg)
        if read is not None:
            yield arg.arg, asked, read


def _asks(node: ast.Compare, name: str) -> bool:
    return (
        isinstance(node.left, ast.Name)
        and node.left.id == name
        and isinstance(node.ops[0], ast.Is | ast.IsNot)
        and isinstance(node.comparators[0], ast.Constant)
        and node.comparators[0].value is None
    )


def _always(body: list[ast.stmt], name: str) -> ast.Attribute | None:
    """The first attribute of a variable that is read on every way through a block, before anything
    else could have become of it."""
    for statement in body:
        found = _in_expression(statement, name)
        if found is not None:
            return found
        if isinstance(statement, ast.With):
            found = _always(statement.body, name)
            if found is not None:
                return found
        if _decides(statement, name):
            return None
    return None


def _in_expression(node: ast.AST, name: str) -> ast.Attribute | None:
    """An attribute of a variable that is read whenever a statement is reached."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id == name and isinstance(node.ctx, ast.Load):
            return node
    if isinstance(node, _SOMETIMES):
        return None
    parts: Sequence[ast.AST] = children(node)
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
        parts = [node.test]
    elif isinstance(node, ast.BoolOp):
        parts = node.values[:1]
    return next((f for part in parts if (f := _in_expression(part, name)) is not None), None)


def _decides(statement: ast.stmt, name: str) -> bool:
    """Whether what follows a statement may rest on what it asked of the variable: it leaves the
    function on some way, raises, or gives the variable another value."""
    nodes = walk(statement)
    stored = any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store | ast.Del)
        for node in nodes
    )
    leaves = any(isinstance(node, (*_LEAVES, ast.Assert)) for node in nodes)
    return stored or leaves
