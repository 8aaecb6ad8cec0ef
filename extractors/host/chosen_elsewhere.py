"""Where another module of the package chooses between the launcher of a kernel and something else:
the kernel of another launcher, or a computation of the framework."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from extractors.host.backends import asks
from extractors.host.facts import Material
from extractors.host.gates import answers, joined
from extractors.host.launchers import package_of, taken
from extractors.host.modules import ModuleLoader, absolute, parse_quietly
from extractors.host.origins import lines_of
from extractors.host.sides import forks, routes_of, tries
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

ELSEWHERE = "launcher-chosen-by-another-module"

MAX_LAUNCHERS = 4
MAX_TAKERS = 8
"""Launchers of one kernel that other modules may take, and modules that may take each."""

_MARKS = frozenset({"jit", "kernel"})
"""Decorators of Triton and cuTile that make a kernel of a function."""


def with_choices_elsewhere(material: Material, rows: Sequence[Decision]) -> list[Decision]:
    """The decisions, with those of other modules; what this module answers there belongs to what it
    chooses itself by such tests."""
    told = [*rows]
    for one in _chosen_elsewhere(material):
        same = next((i for i, row in enumerate(told) if one.file is None and _alike(row, one)), -1)
        if same < 0:
            told.append(one)
        else:
            lines = tuple(sorted({*told[same].lines, *one.lines}))
            told[same] = replace(told[same], lines=lines)
    return told


def _alike(one: Decision, other: Decision) -> bool:
    """Whether two decisions are a choice by tests of the same kind."""
    return (one.axis, one.value, one.file) == (other.axis, other.value, other.file)


def _chosen_elsewhere(material: Material) -> Iterator[Decision]:
    """Tests of other modules with a launcher of this kernel on one side alone; of those that this
    module answers, and that hold for the kernel, what it makes the answer of."""
    loader = material.loader
    if loader is None or material.launched_elsewhere or not material.launches:
        return
    found: dict[str, set[Lines]] = {}
    asked: dict[bool, set[Lines]] = {}
    for name in _launchers(material)[:MAX_LAUNCHERS]:
        for other in loader.takers(material.module, name)[:MAX_TAKERS]:
            for path, test, own in _chosen(loader, material.module, other, name):
                found.setdefault(path, set()).add(lines_of(test))
                for call in (one for one in each(test, ast.Call) if _called(one) in own):
                    for device, term in _answered(material, call):
                        asked.setdefault(device, set()).add(lines_of(term))
    for path, lines in found.items():
        yield _decision(False, lines, path)
    for device, lines in asked.items():
        yield _decision(device, lines, None)


def _answered(material: Material, call: ast.Call) -> Iterator[tuple[bool, ast.expr]]:
    """What a function of this module answers a test with: each part, and whether that or what it
    calls asks for the target."""
    pending = answers(material, call)
    for term in pending:
        if isinstance(term, ast.BoolOp):
            pending += term.values
        elif isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.Not):
            pending.append(term.operand)
        else:
            yield any(asks(material, one) for one in (term, *joined(material, term))), term


def _decision(device: bool, lines: set[Lines], path: str | None) -> Decision:
    return Decision(
        axis="arch_dispatch" if device else "algorithm_selection",
        value="if capability" if device else "heuristic dispatch by shape/arch",
        pattern="kernel-chosen-by-the-target" if device else ELSEWHERE,
        lines=tuple(sorted(lines)),
        kind=AxisKind.HOST,
        file=path,
    )


def _launchers(material: Material) -> list[str]:
    """Functions of the module that lead to the kernel, and other names of them."""
    routes = routes_of(material.tree, material.kernels)
    found = [
        node.name
        for node in material.tree.body
        if isinstance(node, ast.FunctionDef) and node.name not in material.kernels
        if material.signature.name in routes.leads(node.name) and not tries(node)
    ]
    return found + [
        to.id
        for node in material.tree.body
        if isinstance(node, ast.Assign) and _last(node.value) in found
        for to in node.targets
        if isinstance(to, ast.Name)
    ]


def _chosen(
    loader: ModuleLoader, module: str, other: str, name: str
) -> Iterator[tuple[str, ast.expr, frozenset[str]]]:
    """Tests of another module with a launcher on one side alone, with its path and, where they hold
    for the launcher, the names that it takes from the module of that."""
    text = loader.source(other)
    tree = _tree(text[1]) if text is not None and name in text[1] else None
    if text is None or tree is None:
        return
    here = package_of(other, text[0])
    held, _ = taken(loader, tree, here, module, name)
    own = frozenset(
        one.asname or one.name
        for node in each(tree, ast.ImportFrom)
        if absolute(here, node) == module
        for one in node.names
    )
    for called in held:
        for fork in forks(tree, _kernels(tree) | {called}):
            if fork.instead(called):
                holds = called in fork.sides[0] and not isinstance(fork.at, ast.UnaryOp)
                yield text[0], fork.at, own if holds else frozenset()
        for one in each(tree, ast.IfExp):
            if _either(one, called):
                yield text[0], one.test, own if _last(one.body) == called else frozenset()


def _either(choice: ast.IfExp, called: str) -> bool:
    """Whether a choice is between a launcher and another function."""
    sides = [_last(one) for one in (choice.body, choice.orelse)]
    return called in sides and all(sides) and sides[0] != sides[1]


@lru_cache(maxsize=32)
def _tree(text: str) -> ast.Module | None:
    return parse_quietly(text)


def _kernels(tree: ast.Module) -> frozenset[str]:
    """Functions that a module marks as kernels."""
    return frozenset(
        node.name
        for node in each(tree, ast.FunctionDef)
        for mark in node.decorator_list
        if _last(mark.func if isinstance(mark, ast.Call) else mark) in _MARKS
    )


def _called(call: ast.Call) -> str:
    return _last(call.func)


def _last(name: ast.expr) -> str:
    """The last part of a name."""
    return name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
