"""Values of a launch that are chosen by what the target is, in functions that work them out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.backends import asked_inside, asks, gives_answer, holds
from extractors.host.facts import Material, functions_of
from extractors.host.origins import lines_of
from extractors.syntax.nodes import each, walk
from kb.evidence import AxisKind, Decision, Lines

_CHOSEN = frozenset({"tile_selection", "num_warps", "prefetch_depth", "occupancy", "cluster_size"})
"""Axes whose values a host may choose by the target."""


def by_device(material: Material, rows: Iterable[Decision]) -> Iterator[Decision]:
    """Tests of the target, and tables that are looked into by it, in the functions where values of
    the `rows` are worked out."""
    if not material.machine.device_functions:
        return
    places = {line for row in rows if row.axis in _CHOSEN and not row.file for line in row.lines}
    functions = {one for place in places if (one := _around(material, place)) is not None}
    functions |= {one for f in functions for one in _asking(material, f, places)}
    found = {line for one in functions for line in _chosen_in(material, one, places)}
    if found:
        yield Decision(
            axis="arch_dispatch",
            value="if capability",
            pattern="architecture-dispatched-tuning-space",
            lines=tuple(sorted(found)),
            kind=AxisKind.HOST,
        )


def _around(material: Material, place: Lines) -> ast.FunctionDef | None:
    """The innermost function of host code around a place."""
    around = [
        node
        for node in functions_of(material.tree)
        if node.lineno < place[0] <= (node.end_lineno or node.lineno)
    ]
    innermost = max(around, key=lambda node: node.lineno, default=None)
    ours = innermost is not None and innermost.name == material.signature.name
    return None if ours else innermost


def _asking(
    material: Material, function: ast.FunctionDef, places: set[Lines]
) -> Iterator[ast.FunctionDef]:
    """Functions of the module that ask for the target and that are called in places of a
    function."""
    named = {
        node.func.id
        for node in each(function, ast.Call)
        if isinstance(node.func, ast.Name)
        if any(first <= node.lineno <= last for first, last in places)
    }
    named &= material.machine.device_functions
    yield from (one for one in functions_of(material.tree) if one.name in named)


def _chosen_in(
    material: Material, function: ast.FunctionDef, places: set[Lines]
) -> Iterator[Lines]:
    """Tests that one of the places is under, or that give a value back; what is looked up."""
    for node in walk(function):
        if isinstance(node, ast.If | ast.IfExp) and asks(material, node.test):
            if holds(node, places) or any(isinstance(one, ast.Return) for one in walk(node)):
                yield lines_of(node.test)
                yield from map(lines_of, asked_inside(material, node.test))
        elif (table := _looked_up(material, node)) is not None:
            yield lines_of(node)
            yield from _table(material, table)


def _looked_up(material: Material, node: ast.AST) -> ast.expr | None:
    """The table that is looked into by what the target is, there or in a function of another module
    that it is handed to."""
    if isinstance(node, ast.Subscript):
        return node.value if gives_answer(material, node.slice) else None
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if isinstance(node.func, ast.Attribute):
        looked = node.func.attr == "get" and gives_answer(material, node.args[0])
        return node.func.value if looked else None
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in material.machine.device_functions:
        return next((one for one in node.args if any(_table(material, one))), None)
    return None


def _table(material: Material, value: ast.expr) -> Iterator[Lines]:
    """Where a table of the module is written that a value is, or may be."""
    if not isinstance(value, ast.Name) or material.origins is None:
        return
    for made in (value, *material.origins.statements(value, callers=False)):
        written = made.value if isinstance(made, ast.Assign | ast.AnnAssign) else None
        if isinstance(written, ast.Dict):
            yield lines_of(made)
