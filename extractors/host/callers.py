"""The functions of a module that lead to a launch, and the classes that they are called from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.events import LaunchRecord
from extractors.host.facts import Material


def leading(material: Material, launch: LaunchRecord) -> list[ast.FunctionDef]:
    """The functions on the way to a launch, outermost first, as far as the module holds them and
    one definition alone can be meant."""
    found: list[ast.FunctionDef] = []
    for position, name in enumerate(launch.stack):
        after = launch.stack[position + 1] if position + 1 < len(launch.stack) else None
        meant = [
            node
            for node in ast.walk(material.tree)
            if isinstance(node, ast.FunctionDef)
            and node.name == name
            and _leads(node, launch, after)
        ]
        found += meant if len(meant) == 1 else []
    return found


def _leads(node: ast.FunctionDef, launch: LaunchRecord, after: str | None) -> bool:
    if after is None:
        return node.lineno <= launch.lines[0] <= (node.end_lineno or node.lineno)
    return after in set(called(node)) | ({"forward"} if "apply" in called(node) else set())


def called(node: ast.AST) -> list[str]:
    """Names of the functions and methods that a piece of code calls."""
    functions = [item.func for item in ast.walk(node) if isinstance(item, ast.Call)]
    return [
        func.id if isinstance(func, ast.Name) else func.attr
        for func in functions
        if isinstance(func, (ast.Name, ast.Attribute))
    ]


def classes(material: Material, launch: LaunchRecord) -> Iterator[ast.ClassDef]:
    """Classes of the module with a method that is on the way to a launch, or that calls a function
    that is."""
    on_the_way = leading(material, launch)
    names = {node.name for node in on_the_way}
    for node in ast.walk(material.tree):
        if isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            if any(method in on_the_way or names & set(called(method)) for method in methods):
                yield node
