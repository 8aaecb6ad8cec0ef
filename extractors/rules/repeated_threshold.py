"""Two host functions choose by the same numbers, each with its own copy of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from extractors.host.callers import leading
from extractors.host.facts import Material, functions_of
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import ROWS_POINTER
from extractors.syntax.nodes import walk
from kb.evidence import Finding, Severity

_TWICE = (
    ROWS_POINTER
    + """
def forward(x):
    m, n = x.shape
    T = triton.next_power_of_2(n)
    out = torch.empty_like(x)
    if T > 256 or m < 4096 * 8:
        rows[(m,)](x, out, n, T)
    return out

def backward(dy):
    m, n = dy.shape
    T = triton.next_power_of_2(n)
    dx = torch.empty_like(dy)
    if T > 256 or m < 4096 * 8:
        rows[(m,)](dy, dx, n, T)
    return dx
"""
)
SMALLEST = 128
"""Numbers below are axes, counts, versions of an architecture and the like, and no thresholds."""


class RepeatedThreshold(Rule):
    """The condition that chooses a kernel or its variant compares with numbers, and another
    function of the module has the same condition with the same numbers."""

    name = "repeated-threshold"
    dialects = ("triton",)
    matches = (
        Case(_TWICE, "256"),
        Case(vary(_TWICE, (" or m < 4096 * 8", "")), "256"),
    )
    near_misses = (
        NearMiss(
            vary(
                _TWICE,
                (
                    "    if T > 256 or m < 4096 * 8:\n        rows[(m,)](dy",
                    "    if T > 128 or m < 4096 * 8:\n        rows[(m,)](dy",
                ),
            ),
            why="the numbers are different ones",
        ),
        NearMiss(
            vary(_TWICE, ("T > 256 or m < 4096 * 8", "T > 1")),
            why="one is no threshold",
        ),
    )
    seen = (Seen("liger-kernel", "liger_kernel/ops/rms_norm.py", "_rms_norm_forward_kernel", 482),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for tests in _repeated(material) if material is not None else ():
            first = tests[0]
            lines = ", ".join(str(test.lineno) for test in tests)
            yield self.finding(
                subject,
                f"`{ast.unparse(first)}` is written in {len(tests)} functions (lines {lines}): the "
                "numbers are copies, and changing one of them leaves the others",
                "give the numbers a name, or the choice a function of its own",
                [(test.lineno, test.end_lineno or test.lineno) for test in tests],
                Severity.NOTE,
            )


def _repeated(material: Material) -> Iterator[list[ast.expr]]:
    """Tests with numbers that several functions have, one of them on the way to a launch."""
    ways = {id(f) for launch in material.sites() for f in leading(material, launch)}
    for tests in _shared(material.tree):
        if ways & tests.keys():
            yield sorted(tests.values(), key=lambda test: test.lineno)


@lru_cache(maxsize=8)
def _shared(tree: ast.Module) -> tuple[dict[int, ast.expr], ...]:
    """Tests that more than one function of a module has, each by the identity of the function."""
    found: dict[str, dict[int, ast.expr]] = {}
    for function in functions_of(tree):
        if any(isinstance(d, ast.Attribute | ast.Call) for d in function.decorator_list):
            continue  # a kernel, or a function under a decorator that is not followed
        for test in _tests(function):
            found.setdefault(ast.dump(test), {}).setdefault(id(function), test)
    return tuple(tests for tests in found.values() if len(tests) > 1)


def _tests(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in walk(function):
        if isinstance(node, ast.If | ast.IfExp) and _compares(node.test):
            yield node.test


def _compares(test: ast.expr) -> bool:
    """Whether a number of at least SMALLEST is ordered against something that is not constant."""
    return any(
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        and any(isinstance(one, ast.Name | ast.Attribute | ast.Subscript) for one in _sides(node))
        and any(
            isinstance(n, ast.Constant) and isinstance(n.value, int) and n.value >= SMALLEST
            for n in walk(node)
        )
        for node in walk(test)
    )


def _sides(node: ast.Compare) -> list[ast.expr]:
    return [node.left, *node.comparators]
