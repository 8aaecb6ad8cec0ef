"""What the forward pass of a differentiable function saves for its backward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.ahead import names_in, saving
from extractors.host.callers import VIEWS
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.passes import differentiable, ways
from extractors.host.sides import routes_of
from extractors.host.tree import parameter_names
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

SAVED = "saved-for-the-backward-pass"
INPUTS = "inputs saved alone"
READ = "what the forward pass saved is read"


def saved(material: Material) -> Iterator[Decision]:
    """Where arrays are saved for another kernel, which the `backward` of the class leads to, when
    all of them are inputs; and where a kernel of `backward` alone gets what was saved."""
    found: dict[str, set[Lines]] = {}
    routes = routes_of(material.tree, material.kernels)
    for forward, backward in differentiable(material.tree) if material.launches else ():
        calls = saving(forward)
        ahead, back = (bool(ways(material, one)) for one in (forward, backward))
        if back and not ahead:
            found.setdefault(READ, set()).update(lines_of(one) for one in calls)
            found[READ].update(lines_of(one) for one in each(backward, ast.Attribute)
                               if one.attr == "saved_tensors")  # fmt: skip
        elif ahead and not back and calls and routes.of([backward]):
            if all(_is_input(forward, name) for call in calls for name in _given(call)):
                found.setdefault(INPUTS, set()).update(map(lines_of, calls))
    for value, lines in found.items():
        if lines:
            yield Decision(
                axis="recompute", value=value, pattern=SAVED, lines=tuple(sorted(lines)),
                kind=AxisKind.DESIGN,
            )  # fmt: skip


def _given(call: ast.Call) -> set[str]:
    return {name for one in call.args for name in names_in(one)}


def _is_input(forward: ast.FunctionDef, name: str) -> bool:
    """A parameter that the function gives no other content."""
    made = [
        node.value
        for node in each(forward, ast.Assign)
        if any(name in names_in(target) for target in node.targets)
    ]
    return name in parameter_names(forward) and all(_same(value, name) for value in made)


def _same(value: ast.expr, name: str) -> bool:
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in VIEWS | {"contiguous", "to"}:
            return False
        value = value.func.value
    return isinstance(value, ast.Name) and value.id == name
