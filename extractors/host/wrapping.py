"""What stands around functions: decorators that make every tensor contiguous before a host function
runs, marks of a kernel, functions that make it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.callers import MAX_CALLERS, called, leading
from extractors.host.events import LaunchRecord
from extractors.host.expressions import Expressions
from extractors.host.facts import Material, functions_of
from extractors.host.origins import lines_of
from extractors.host.values import Frame, Func
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

MAX_STEPS = 3
"""Helpers of a decorator that are followed."""


def makes_contiguous(core: Expressions, decorator: Func) -> bool:
    """Whether a function inside a decorator calls `.contiguous()`, itself or through a helper, and
    hands a row of arguments on to the function that was decorated."""
    inside = list(each(decorator.node, ast.FunctionDef))
    return any(
        _hands_on(node, {name for other in inside if other is not node for name in _names(other)})
        and _contiguous(core, node, decorator.frame, MAX_STEPS)
        for node in inside
        if node is not decorator.node
    )


def _names(node: ast.FunctionDef) -> set[str]:
    return {arg.arg for arg in (*node.args.posonlyargs, *node.args.args)}


def _hands_on(node: ast.FunctionDef, given: set[str]) -> bool:
    """Whether a function calls one of the functions given around it with `*arguments`."""
    return any(
        isinstance(item.func, ast.Name)
        and item.func.id in given - _names(node)
        and any(isinstance(arg, ast.Starred) for arg in item.args)
        for item in each(node, ast.Call)
    )


def _contiguous(core: Expressions, node: ast.AST, frame: Frame, steps: int) -> bool:
    calls = [item.func for item in each(node, ast.Call)]
    if any(isinstance(func, ast.Attribute) and func.attr == "contiguous" for func in calls):
        return True
    names = dict.fromkeys(func.id for func in calls if isinstance(func, ast.Name))
    helpers = [core.lookup(name, frame) for name in names] if steps else []
    return any(
        _contiguous(core, one.node, one.frame, steps - 1)
        for one in helpers
        if isinstance(one, Func)
    )


def guarded(material: Material) -> Iterator[Decision]:
    """The decorators of the functions of the module that lead to a launch."""
    lines = {line for launch in material.sites() for line in _decorators(material, launch)}
    if lines:
        yield Decision(
            axis="layout_contract",
            value=".contiguous() on host",
            pattern="host-contiguity-alignment-normalisation",
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )


def marked(material: Material) -> Iterator[Decision]:
    """Decorators of the package that give the kernel back as it is: they say something of it."""
    lines = material.machine.marked.get(material.signature.name)
    if lines:
        yield Decision(
            axis="code_structure",
            value="marked by a decorator",
            pattern="kernel-marked-by-a-decorator",
            lines=tuple(sorted(set(lines))),
            kind=AxisKind.HOST,
        )


def as_operator(material: Material) -> Iterator[Decision]:
    """The functions on the way to a launch that are implementations of an operator of the
    framework, with the launches of a kernel that is wrapped for it."""
    known = material.machine.registered
    lines: set[Lines] = set()
    for launch in material.launches if known else ():
        marks = {known[node] for node in leading(material, launch) if node in known}
        call = material.origins.call_at(launch.lines) if marks and material.origins else None
        kernel = call.func.value if call and isinstance(call.func, ast.Subscript) else None
        lines |= marks | ({lines_of(kernel)} if isinstance(kernel, ast.Call) else set())
    if lines:
        yield Decision(
            axis="code_structure",
            value="operator of the framework",
            pattern="launched-by-an-operator-of-the-framework",
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )


def made_inside(material: Material) -> Iterator[Decision]:
    """A function that defines the kernel and gives it back: each call makes one of its own."""
    first, name = material.signature.lines[0], material.signature.name
    around = [
        node
        for node in functions_of(material.tree)
        if node.name != name and node.lineno < first <= (node.end_lineno or node.lineno)
    ]
    for maker in around[-1:]:
        given = [one for one in each(maker, ast.Return) if one.value is not None]
        back = [one for one in given if any(n.id == name for n in each(one, ast.Name))]
        if back:
            lines = {(maker.lineno, maker.lineno), (first, first), *map(lines_of, back)}
            yield Decision(
                axis="code_structure",
                value="closure factory",
                pattern="kernel-made-by-a-function",
                lines=tuple(sorted(lines)),
                kind=AxisKind.HOST,
            )


def in_a_table(material: Material) -> Iterator[Decision]:
    """A table of the module that holds this kernel and others: one piece of code for each case."""
    name = material.signature.name
    lines: set[Lines] = set()
    for table in each(material.tree, ast.Dict) if material.launches else ():
        held = [one for value in table.values for one in each(value, ast.Name)]
        kernels = {one.id for one in held if one.id in material.kernels}
        if name in kernels and len(kernels) > 1:
            lines |= {lines_of(table), *(lines_of(one) for one in held if one.id == name)}
    if lines:
        yield Decision(
            axis="code_structure",
            value="one kernel for each case, in a table",
            pattern="kernels-of-one-table",
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )


def _decorators(material: Material, launch: LaunchRecord) -> Iterator[Lines]:
    known = material.machine.contiguous
    if not known:
        return
    found = set(leading(material, launch))
    for _ in range(MAX_CALLERS):
        names = {node.name for node in found if node in material.tree.body}
        more = {node for node in functions_of(material.tree) if called(node) & names} - found
        if not more:
            break
        found |= more
    yield from (known[node] for node in found if node in known)
