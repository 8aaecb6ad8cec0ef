"""Launchers that a module keeps side by side under one name, and launches that are left out where
what they would make is there already."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.callers import VIEWS, called, leading
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.sides import routes_of
from extractors.host.tree import parameter_names
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

BESIDE = "launcher-that-a-name-of-the-module-stands-for"
LEFT_OUT = "launch-left-out-where-its-result-is-there"

_Shape = tuple[tuple[str, ...], str, int]


def named(material: Material) -> Iterator[Decision]:
    """Names of the module that stand for a launcher of another kernel, where nothing there calls or
    names that of this one, which takes and gives the same."""
    kernel = material.signature.name
    functions = {f.name: f for f in material.tree.body if isinstance(f, ast.FunctionDef)}
    routes = routes_of(material.tree, material.kernels)
    hosts = {name: f for name, f in functions.items()
             if name not in material.kernels and routes.leads(name)}  # fmt: skip
    names = {
        node.value.id: node
        for node in material.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        and node.value.id in hosts and all(isinstance(to, ast.Name) for to in node.targets)
    }  # fmt: skip
    inner = {name for f in functions.values() for name in called(f)}
    loose = {name for name in hosts if name not in names and name not in inner}
    passed = {
        lines_of(node)
        for name, node in names.items()
        if kernel not in routes.leads(name)
        for one in loose
        if kernel in routes.leads(one) and _alike(hosts[one], hosts[name])
    }
    if passed:
        yield Decision(
            axis="algorithm_selection",
            value="a name of the module stands for another launcher",
            pattern=BESIDE,
            lines=tuple(sorted(passed)),
            kind=AxisKind.HOST,
        )


def _alike(one: ast.FunctionDef, other: ast.FunctionDef) -> bool:
    """Whether two functions say that they take the same types of arguments, with the same defaults,
    and give as many results."""
    said = all(part.annotation is not None for part in one.args.args)
    return said and bool(one.args.args) and _shape(one) == _shape(other)


def _shape(function: ast.FunctionDef) -> _Shape:
    args = function.args
    taken = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    ends = [node.value for node in each(function, ast.Return) if node.value is not None]
    counts = {len(end.elts) if isinstance(end, ast.Tuple) else 1 for end in ends}
    defaults = [*args.defaults, *(d for d in args.kw_defaults if d is not None)]
    return (
        tuple(_last(one.annotation) for one in taken),
        " ".join(ast.unparse(one) for one in defaults),
        max(counts, default=0),
    )


def _last(annotation: ast.expr | None) -> str:
    """A type as it is called, whatever module it is taken from."""
    return ast.unparse(annotation).rpartition(".")[2] if annotation is not None else ""


def left_out(material: Material) -> Iterator[Decision]:
    """Tests before a launch under which the launching function gives back what it would hand the
    launch; not those of whether there is anything to do."""
    lines: set[Lines] = set()
    for launch in material.sites():
        way = leading(material, launch)
        call = material.origins.call_at(launch.lines) if material.origins else None
        if not way or call is None:
            continue
        given = {one.id for part in (*call.args, *(k.value for k in call.keywords))
                 for one in each(part, ast.Name)}  # fmt: skip
        taken = {*parameter_names(way[-1])} & given
        for node in way[-1].body:
            if node.lineno >= launch.lines[0]:
                break
            if isinstance(node, ast.If) and len(node.body) == 1 and not node.orelse:
                end = node.body[0]
                if isinstance(end, ast.Return) and _root(end.value) in taken:
                    if not _empty(node.test):
                        lines |= {lines_of(node.test), lines_of(end)}
    if lines:
        yield Decision(
            axis="algorithm_selection",
            value="launch left out where its input is the result",
            pattern=LEFT_OUT,
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )


def _empty(test: ast.expr) -> bool:
    """A comparison with zero: whether there is anything to do at all."""
    return any(
        isinstance(side, ast.Constant) and side.value == 0
        for one in each(test, ast.Compare)
        for side in (one.left, *one.comparators)
    )


def _root(value: ast.expr | None) -> str | None:
    """The name of a value, perhaps seen in another way."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in VIEWS:
            return None
        value = value.func.value
    return value.id if isinstance(value, ast.Name) else None
