"""Arguments of a launch that stand in a table of names: a dictionary that the functions on the way
to the launch fill and hand on, or a keyword of one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from extractors.syntax.nodes import each, walk


@dataclass(frozen=True, slots=True)
class Entry:
    """A value under a name, the function that writes it, the function whose keyword it is (none in
    a table) and the names beside the table in a call."""

    value: ast.expr
    function: str
    called: str
    beside: frozenset[str] = frozenset()


def entry(tree: ast.Module, name: str, stack: tuple[str, ...], kernel: str) -> ast.expr | None:
    """What the functions on the way to a launch write under the name of a parameter, where that is
    one thing; entries beside the name of the kernel come first."""
    found = [
        one
        for one in _entries(tree).get(name, ())
        if one.function in stack and (not one.called or one.called in stack)
    ]
    own = [one for one in found if kernel in one.beside] or found
    texts = {ast.dump(one.value) for one in own}
    return own[0].value if len(texts) == 1 else None


@lru_cache(maxsize=8)
def _entries(tree: ast.Module) -> Mapping[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for function in each(tree, ast.FunctionDef):
        for name, one in _written(function):
            found.setdefault(name, []).append(one)
    return found


def _written(function: ast.FunctionDef) -> Iterator[tuple[str, Entry]]:
    outer: dict[ast.AST, frozenset[str]] = {}
    for node in walk(function):
        if isinstance(node, ast.Call):
            names = frozenset(one.id for one in node.args if isinstance(one, ast.Name))
            outer |= dict.fromkeys(node.args, names)
            called = node.func.id if isinstance(node.func, ast.Name) else "."
            table = called == "dict"
            for key in node.keywords:
                if key.arg:
                    beside = outer.get(node, frozenset()) if table else names
                    where = "" if table else called
                    yield key.arg, Entry(key.value, function.name, where, beside)
        elif isinstance(node, ast.Dict):
            for key_, value in zip(node.keys, node.values, strict=True):
                if isinstance(key_, ast.Constant) and isinstance(key_.value, str):
                    beside = outer.get(node, frozenset())
                    yield key_.value, Entry(value, function.name, "", beside)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            at = node.targets[0].slice
            if isinstance(at, ast.Constant) and isinstance(at.value, str):
                yield at.value, Entry(node.value, function.name, "")
