"""What the forward pass of a differentiable function saves for its backward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

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
MAX_CALLS = 3
"""Functions that hand an input back, one through the other."""

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
            functions = {f.name: f for f in material.tree.body if isinstance(f, ast.FunctionDef)}
            if all(_is_input(functions, forward, n) for call in calls for n in _given(call)):
                found.setdefault(INPUTS, set()).update(map(lines_of, calls))
    for value, lines in found.items():
        if lines:
            yield Decision(
                axis="recompute", value=value, pattern=SAVED, lines=tuple(sorted(lines)),
                kind=AxisKind.DESIGN,
            )  # fmt: skip


def results(material: Material) -> set[int]:
    """Places among what is saved for the backward passes that lead to a kernel, which hold no input
    of the forward pass: in all of them, where there are several."""
    found: list[set[int]] = []
    functions = {f.name: f for f in material.tree.body if isinstance(f, ast.FunctionDef)}
    for forward, backward in differentiable(material.tree) if material.launches else ():
        calls = saving(forward) if ways(material, backward) else []
        for call in calls:
            if len(calls) > 1 or any(isinstance(one, ast.Starred) for one in call.args):
                return set()
            found.append({
                place
                for place, one in enumerate(call.args)
                if (names := names_in(one))
                and not any(_is_input(functions, forward, name) for name in names)
            })  # fmt: skip
    return set.intersection(*found) if found else set()


def _given(call: ast.Call) -> set[str]:
    return {name for one in call.args for name in names_in(one)}


def _is_input(
    functions: Mapping[str, ast.FunctionDef], given: ast.FunctionDef, name: str, depth: int = 0
) -> bool:
    """A parameter that the function gives no other content: it is seen in another way, or taken
    from a function of the module that hands it back."""
    return name in parameter_names(given) and all(
        _root(node.value) == name or _handed_back(functions, node.value, target, name, depth)
        for node in each(given, ast.Assign)
        for target in node.targets
        if name in names_in(target)
    )


def _handed_back(
    functions: Mapping[str, ast.FunctionDef],
    value: ast.expr,
    target: ast.expr,
    name: str,
    depth: int,
) -> bool:
    """Whether a call gives a name back what it was given under it, wherever it returns."""
    called = (
        value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
    )
    function = functions.get(called)
    if function is None or not isinstance(value, ast.Call) or depth >= MAX_CALLS:
        return False
    places = target.elts if isinstance(target, ast.Tuple) else [target]
    at = next((i for i, one in enumerate(places) if names_in(one) == {name}), None)
    given = dict(zip(parameter_names(function), map(_root, value.args), strict=False))
    ends = [one.value for one in each(function, ast.Return)]
    for end in ends:
        parts = end.elts if isinstance(end, ast.Tuple) and len(places) > 1 else [end]
        back = _root(parts[at]) if at is not None and len(parts) == len(places) else None
        if back is None or given.get(back) != name:
            return False
        if not _is_input(functions, function, back, depth + 1):
            return False
    return bool(ends)


def _root(value: ast.expr | None) -> str | None:
    """The name that a value is, perhaps seen in another way or in another place."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in VIEWS | {"contiguous", "to"}:
            return None
        value = value.func.value
    return value.id if isinstance(value, ast.Name) else None
