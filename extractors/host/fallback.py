"""A function that launches a kernel, or leaves early with what the framework computes instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.callers import called, leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.syntax.nodes import walk
from kb.evidence import AxisKind, Decision, Lines

_MAKES = frozenset({
    "empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like",
    "tensor", "new_empty", "new_zeros", "new_ones", "new_full", "clone", "contiguous", "view",
    "reshape", "expand", "to", "detach", "type", "type_as", "zero_", "fill_", "copy_", "size",
    "squeeze", "unsqueeze", "flatten", "permute", "transpose", "numel", "item", "float", "half",
})  # fmt: skip
"""Methods and functions of torch that make, move or look at a tensor and compute nothing."""


def framework_instead(material: Material) -> Iterator[Decision]:
    """Branches above a launch that return a computation of the framework."""
    lines = {line for launch in material.sites() for line in _leaves(material, launch)}
    if lines:
        yield Decision(
            axis="algorithm_selection",
            value="heuristic dispatch by shape/arch",
            pattern="framework-instead-of-the-kernel",
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )


def _leaves(material: Material, launch: LaunchRecord) -> Iterator[Lines]:
    functions = leading(material, launch)
    call = material.origins.call_at(launch.lines) if material.origins else None
    if not functions or call is None:
        return
    given = {node.id for node in walk(call) if isinstance(node, ast.Name)} | _torch(material.tree)
    for place, function in enumerate(functions):
        inner = {one.name for one in functions[place + 1 :]}
        for branch in walk(function):
            if not isinstance(branch, ast.If) or branch.orelse:
                continue
            last = branch.body[-1]
            below = [n for n in function.body if n.lineno > lines_of(branch)[1]]
            ahead = any(
                lines_of(one)[0] <= launch.lines[0] <= lines_of(one)[1] or called(one) & inner
                for one in below
            )
            if ahead and isinstance(last, ast.Return) and _computes(last.value, given):
                yield lines_of(branch)


def _torch(tree: ast.Module) -> set[str]:
    """Names that stand for torch and its parts."""
    return {
        (name.asname or name.name).partition(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import)
        for name in node.names
        if name.name.partition(".")[0] == "torch"
    }


def _computes(value: ast.expr | None, given: set[str]) -> bool:
    """A call of torch, or of a method of what the kernel would be given, that computes."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    if value.func.attr in _MAKES:
        return False
    root: ast.expr = value.func.value
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id in given
