"""Gradients that the kernel of the forward pass writes: the backward pass only multiplies them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.callers import leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.host.origins import lines_of
from extractors.host.passes import AHEAD, differentiable
from extractors.host.pipeline import bound_results, given_name, runs_kernels
from extractors.host.sides import routes_of
from extractors.syntax.nodes import each, walk
from kb.evidence import AxisKind, Decision, Lines

_SCALES = frozenset({"mul", "mul_", "multiply", "equal", "ne", "is_contiguous", "ndim", "dim"})
"""Methods and functions of torch that multiply or compare."""

_MOVES = frozenset({
    "view", "reshape", "to", "type", "contiguous", "expand", "unsqueeze", "squeeze", "detach",
    "tensor", "view_as", "expand_as", "type_as", "float", "flatten", "transpose", "clone", "size",
    "len", "isinstance", "tuple", "list", "range", "getattr",
})  # fmt: skip
"""Methods and functions that compute nothing."""


def gradient_ahead(material: Material) -> Iterator[Decision]:
    """Arrays of a launch in the `forward` of torch.autograd that are saved there, where `backward`
    runs no kernel and does nothing but multiply."""
    found: dict[str, set[Lines]] = {}
    for forward, backward in differentiable(material.tree) if material.launches else ():
        saved = {name for call in saving(forward) for name in names_in(call)}
        helpers = list(_scaling(material, backward)) if saved else []
        for launch in material.sites() if helpers else ():
            for position, (name, constant) in enumerate(material.signature.params):
                given = None if constant else given_name(material, launch, name, position)
                if given is not None and _is_saved(material, launch, given.id, forward, saved):
                    lines = found.setdefault(name, {launch.lines})
                    lines |= {lines_of(call) for call in saving(forward)}
                    lines |= {lines_of(one) for helper in helpers for one in _products(helper)}
    for name, lines in found.items():
        yield Decision(
            axis="kernel_boundaries",
            value="gradient written in forward",
            pattern=AHEAD,
            lines=tuple(sorted(lines)),
            kind=AxisKind.DESIGN,
            subject=name,
        )


def saving(forward: ast.FunctionDef) -> list[ast.Call]:
    return [
        node
        for node in each(forward, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "save_for_backward"
    ]


def names_in(node: ast.AST) -> set[str]:
    return {one.id for one in each(node, ast.Name)}


def _scaling(material: Material, backward: ast.FunctionDef) -> Iterator[ast.FunctionDef]:
    """A backward pass and the functions of the module that it calls, where all of them multiply
    or move arrays and nothing else; otherwise nothing."""
    routes = routes_of(material.tree, material.kernels)
    calls = list(each(backward, ast.Call))
    named = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    helpers = [node for node in functions_of(material.tree) if node.name in named]
    if routes.of([backward]) or any(runs_kernels(material, call) for call in calls):
        return
    known = {node.name for node in helpers}
    if all(_plain(node, known) for node in (backward, *helpers)):
        if any(_products(node) for node in (backward, *helpers)):
            yield from (backward, *helpers)


def _plain(function: ast.FunctionDef, known: set[str]) -> bool:
    for node in (one for statement in function.body for one in walk(statement)):
        if isinstance(node, ast.Call):
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            name = attribute or getattr(node.func, "id", "")
            if name not in known and name not in _SCALES and name not in _MOVES:
                return False
        elif isinstance(node, ast.BinOp | ast.AugAssign) and not isinstance(node.op, ast.Mult):
            return False
    return True


def _products(function: ast.FunctionDef) -> list[ast.AST]:
    """Where a function multiplies."""
    return [
        node
        for node in walk(function)
        if isinstance(node, ast.BinOp | ast.AugAssign)
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("mul", "mul_", "multiply")
        )
    ]


def _is_saved(
    material: Material,
    launch: LaunchRecord,
    name: str,
    forward: ast.FunctionDef,
    saved: set[str],
) -> bool:
    """Whether an array of a launch is saved by `forward`: around the launch itself, or where the
    function around it gives the array back."""
    around = leading(material, launch)[-1:]
    if around == [forward]:
        return name in saved
    return any(
        caller is forward and target in saved
        for function in around
        for caller, target, _ in bound_results(material.tree, function, name)
    )
