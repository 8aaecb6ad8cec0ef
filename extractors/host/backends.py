"""Branches of host code on what the target is, where a kernel is launched or its configurations are
made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.configurations import making
from extractors.host.device import QUESTIONS
from extractors.host.facts import Material, functions_of
from extractors.host.origins import lines_of
from extractors.syntax.nodes import walk
from kb.evidence import AxisKind, Decision

_COUNTS = frozenset({"multi_processor_count", "multiprocessor_count"})
"""Properties of PyTorch and Triton that are numbers of multiprocessors."""


def by_backend(material: Material) -> Iterator[Decision]:
    """Tests of the target, by a function that asks for it, in the functions around launches and in
    those that make configurations."""
    roots: list[ast.AST] = [one for search in material.searches for one in making(material, search)]
    for launch in material.sites():
        first = launch.lines[0]
        around = [
            node
            for node in functions_of(material.tree)
            if node.lineno <= first <= (node.end_lineno or node.lineno)
        ]
        roots += around[-1:]
    tests = [
        node.test
        for root in roots
        for node in walk(root)
        if isinstance(node, ast.If | ast.IfExp | ast.Assert) and _asks(material, node.test)
    ]
    lines = {lines_of(test) for test in tests}
    lines |= {line for t in tests if material.origins for line in material.origins.returned(t)}
    if lines:
        yield Decision(
            axis="arch_dispatch",
            value="if capability",
            pattern="architecture-dispatched-tuning-space",
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )


def asks(material: Material, test: ast.expr) -> bool:
    """True for a test of the target: it calls what asks for it, or looks only at names that are
    bound to what such a call gives."""
    if _asks(material, test):
        return True
    names = [node for node in walk(test) if isinstance(node, ast.Name)]
    return bool(names) and all(_answered(material, name) for name in names)


def _answered(material: Material, name: ast.Name) -> bool:
    made = material.origins.statements(name, callers=False)[:1] if material.origins else []
    value = made[0].value if made and isinstance(made[0], ast.Assign) else None
    given = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.args
    return value is not None and not given and _asks(material, value) and not _counts(value)


def _counts(value: ast.expr) -> bool:
    """True for a number of multiprocessors: how much work there is for the target."""
    return any(isinstance(n, ast.Attribute) and n.attr in _COUNTS for n in walk(value))


def _asks(material: Material, test: ast.expr) -> bool:
    """True for a test that calls what asks for the target, and that measures nothing."""
    calls = [node.func for node in walk(test) if isinstance(node, ast.Call)]
    names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls}
    sized = any(isinstance(n, ast.Attribute) and n.attr in ("shape", "numel") for n in walk(test))
    return bool(names & (QUESTIONS | material.machine.device_functions)) and not sized
