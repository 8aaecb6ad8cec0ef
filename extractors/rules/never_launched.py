"""Nothing in the package launches the kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from extractors.host.facts import function_at
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import each
from kb.evidence import Finding, Severity

_LEFT = (
    AUTOTUNED
    + """
@triton.jit
def copy(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0), mask=at < n)
"""
)
_TILED = (
    SEARCHED
    + """
@ct.kernel
def copy(x, out, T: Int):
    ct.store(out, index=(ct.bid(0),), tile=ct.load(x, index=(ct.bid(0),), shape=(T,)))
"""
)


class NeverLaunched(Rule):
    """A kernel of a module that launches others, whose name stands nowhere but at its definition:
    the module does not name it again, nor does another module of the package take it."""

    name = "never-launched"
    matches = (Case(_LEFT, "`copy`"), Case(_TILED, "`copy`"))
    near_misses = (
        NearMiss(AUTOTUNED, why="it is launched"),
        NearMiss(_LEFT + "KERNELS = {'copy': copy}\n", why="a table hands it on"),
        NearMiss(_LEFT + "__all__ = ['copy']\n", why="it is exported"),
        NearMiss(
            vary(_LEFT, ("    move[", "    copy[(1,)](x, out, n, 64)\n    move[")),
            why="the host launches it beside another",
        ),
        NearMiss(
            vary(_LEFT, ("@triton.jit\ndef copy", "@register('copy')\n@triton.jit\ndef copy")),
            why="a decorator keeps it under a name",
        ),
        NearMiss(
            _LEFT[_LEFT.rindex("@triton.jit") - 1 :].replace(
                "@triton.jit", "import triton\nimport triton.language as tl\n@triton.jit"
            ),
            why="a module of kernels alone, which others launch",
        ),
    )
    seen = (
        Seen("tilegym", "tilegym/suites/unsloth/cutile/fp8.py",
             "w8a8_block_fp8_matmul_kernel_ct", 127),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if material is None or material.launches or material.searches:
            return
        name = material.signature.name
        taken = material.loader is not None and any(
            map(material.loader.imported, (name, material.module.rpartition(".")[2]))
        )  # a module that is taken as a whole may have anything of it launched
        if taken or _named(material.tree, name) or not _launches(material.tree):
            return
        own = function_at(material.tree, name, material.signature.lines)
        if own is None or any(_keeps(one) for one in own.decorator_list):
            return
        yield self.finding(
            subject,
            f"nothing launches or calls `{name}`: its module names it nowhere else, and no other "
            "module of the package takes it",
            "drop it, or launch it where it was meant to be launched",
            [],
            Severity.NOTE,
        )


@lru_cache(maxsize=256)
def _named(tree: ast.Module, name: str) -> bool:
    """Whether a module names something, in its code or in a text."""
    return (
        any(one.id == name for one in each(tree, ast.Name))
        or any(one.attr == name for one in each(tree, ast.Attribute))
        or any(one.value == name for one in each(tree, ast.Constant))
    )


@lru_cache(maxsize=256)
def _launches(tree: ast.Module) -> bool:
    """Whether a module launches any kernel: `kernel[grid](...)`, or `launch(...)` of a library."""
    functions = (call.func for call in each(tree, ast.Call))
    return any(
        isinstance(func, ast.Subscript)
        or (isinstance(func, ast.Attribute) and func.attr in ("launch", "exhaustive_search"))
        for func in functions
    )


def _keeps(decorator: ast.expr) -> bool:
    """Whether a decorator may keep the kernel somewhere: it is given a text."""
    return isinstance(decorator, ast.Call) and any(
        isinstance(one, ast.Constant) and isinstance(one.value, str) for one in decorator.args
    )
