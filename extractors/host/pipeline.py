"""Arrays that pass from kernel to kernel through functions that other modules define."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from extractors.host.callers import VIEWS, leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.host.modules import imported_from
from extractors.host.origins import lines_of
from extractors.host.passes import HANDED_ON, LEFT, TAKEN
from extractors.host.sides import routes_of
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

MAX_STEPS = 3
"""Names that an array is followed through, and modules that pass a function on."""

_FORMS = frozenset({"contiguous", "to", "float", "half", "bfloat16", "transpose", "permute"})
"""Methods of torch that give the same elements in another type or order."""

_JITS = frozenset({"jit", "kernel"})
"""Decorators that make a kernel. Source: triton.jit, cuda.tile.kernel."""


def through_functions(material: Material) -> Iterator[Decision]:
    """Parameters that get what a function of the package computes by kernels of its own, and arrays
    of the launch that are handed to such a function after it."""
    found: dict[tuple[str, str], set[Lines]] = {}
    for launch in material.sites():
        for position, (name, constant) in enumerate(material.signature.params):
            given = None if constant else given_name(material, launch, name, position)
            if given is None:
                continue
            for call in calls_behind(material, given):
                if runs_kernels(material, call):
                    found.setdefault((TAKEN, name), set()).update((launch.lines, lines_of(call)))
            for call in _taken(material, launch, given):
                if runs_kernels(material, call):
                    found.setdefault((LEFT, name), set()).update((launch.lines, lines_of(call)))
    for (value, name), lines in found.items():
        yield Decision(
            axis="kernel_boundaries",
            value=value,
            pattern=HANDED_ON,
            lines=tuple(sorted(lines)),
            kind=AxisKind.DESIGN,
            subject=name,
        )


def given_name(
    material: Material, launch: LaunchRecord, name: str, position: int
) -> ast.Name | None:
    """The name that a launch hands over for a parameter."""
    call = material.origins.call_at(launch.lines) if material.origins else None
    if call is None or material.origins is None:
        return None
    given = material.origins.argument(call, name, position, material.row(launch))
    return given if isinstance(given, ast.Name) else None


def calls_behind(material: Material, name: ast.Name, steps: int = MAX_STEPS) -> Iterator[ast.Call]:
    """Calls that gave a name its array: in the function around it, or in those that call it."""
    if material.origins is None or not steps:
        return
    assigned, passed = material.origins.sources(name)
    for value in (_seen(one) for one in assigned or passed):
        if isinstance(value, ast.Call):
            yield value
        elif isinstance(value, ast.Name) and (value.id != name.id or value in passed):
            yield from calls_behind(material, value, steps - 1)


def _seen(value: ast.expr) -> ast.expr:
    """What a value is a view or another form of."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in VIEWS | _FORMS:
            break
        value = value.func.value
    return value


def _taken(material: Material, launch: LaunchRecord, name: ast.Name) -> Iterator[ast.Call]:
    """Calls below a launch, in the function around it, that take an array of it; and those that
    take it where that function gives it back."""
    for function in leading(material, launch)[-1:]:
        for call in _takers(function, name.id, launch.lines[1]):
            if not _either(function, launch.lines, lines_of(call)):
                yield call
        for caller, target, line in bound_results(material.tree, function, name.id):
            yield from _takers(caller, target, line)


def _either(function: ast.FunctionDef, one: Lines, other: Lines) -> bool:
    """Whether two places stand on the two sides of a branch, so that one excludes the other."""
    for node in each(function, ast.If):
        sides = [_side(part, one, other) for part in (node.body, node.orelse)]
        if {*sides} == {(True, False), (False, True)}:
            return True
    return False


def _side(part: list[ast.stmt], one: Lines, other: Lines) -> tuple[bool, bool]:
    """Whether each of two places is among some statements."""
    first, last = (part[0].lineno, lines_of(part[-1])[1]) if part else (1, 0)
    return first <= one[0] <= last, first <= other[0] <= last


def _takers(function: ast.FunctionDef, name: str, after: int) -> Iterator[ast.Call]:
    yield from (call for call in _calls_with(function).get(name, ()) if call.lineno > after)


@lru_cache(maxsize=512)
def _calls_with(function: ast.FunctionDef) -> dict[str, list[ast.Call]]:
    """Calls in a function by the names that they are handed."""
    found: dict[str, list[ast.Call]] = {}
    for node in each(function, ast.Call):
        given = (*node.args, *(key.value for key in node.keywords))
        for name in {one.id for one in given if isinstance(one, ast.Name)}:
            found.setdefault(name, []).append(node)
    return found


@lru_cache(maxsize=512)
def _given_back(function: ast.FunctionDef) -> tuple[tuple[int, str], ...]:
    """Places of what a function gives back, with the names that stand there."""
    found: list[tuple[int, str]] = []
    for node in each(function, ast.Return):
        if node.value is not None:
            row = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            found += [(at, one.id) for at, one in enumerate(row) if isinstance(one, ast.Name)]
    return tuple(found)


def bound_results(
    tree: ast.Module, function: ast.FunctionDef, name: str
) -> Iterator[tuple[ast.FunctionDef, str, int]]:
    """Functions that call another one, with the names that they bind to what it gives back where a
    name of it stands, and the last lines of those calls."""
    places = {place for place, one in _given_back(function) if one == name}
    for caller, made in _assigned(tree).get(function.name, ()) if places else ():
        target = made.targets[0]
        row = target.elts if isinstance(target, ast.Tuple) else [target]
        for place, one in enumerate(row):
            if place in places and isinstance(one, ast.Name):
                yield caller, one.id, lines_of(made)[1]


@lru_cache(maxsize=8)
def _assigned(tree: ast.Module) -> dict[str, list[tuple[ast.FunctionDef, ast.Assign]]]:
    """Assignments of what functions give back, by the names of those."""
    found: dict[str, list[tuple[ast.FunctionDef, ast.Assign]]] = {}
    for function in functions_of(tree):
        for node in each(function, ast.Assign):
            if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
                found.setdefault(node.value.func.id, []).append((function, node))
    return found


def runs_kernels(material: Material, call: ast.Call) -> bool:
    """Whether a call is of a function, of this module or of the package, that leads to kernels
    other than this one, or launches a kernel of another module."""
    launched = call.func.value if isinstance(call.func, ast.Subscript) else None
    if isinstance(launched, ast.Name) and launched.id not in material.kernels:
        return _elsewhere(material, material.tree, material.module, launched.id, MAX_STEPS)
    if not isinstance(call.func, ast.Name):
        return False
    name = call.func.id
    own = routes_of(material.tree, material.kernels).leads(name) - {material.signature.name}
    return bool(own) or _elsewhere(material, material.tree, material.module, name, MAX_STEPS)


def _elsewhere(material: Material, tree: ast.Module, module: str, name: str, steps: int) -> bool:
    """Whether the name that a module imports is a kernel, or a function that leads to some."""
    for home in imported_from(material.loader, tree, module, name) if steps else ():
        package = f"{home.module}." if home.path.endswith("__init__.py") else home.module
        kernels = _kernels(home.tree)
        if home.name in kernels or routes_of(home.tree, kernels).leads(home.name):
            return True
        return _elsewhere(material, home.tree, package, home.name, steps - 1)
    return False


def _kernels(tree: ast.Module) -> frozenset[str]:
    return frozenset(
        node.name
        for node in each(tree, ast.FunctionDef)
        for one in node.decorator_list
        if _last(one.func if isinstance(one, ast.Call) else one) in _JITS
    )


def _last(name: ast.expr) -> str:
    return name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
