"""Nodes of a syntax tree: what Python's own module finds, in less than half of its time.

Nobody changes a tree: what was found once stays so.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar, cast

_PLAIN = frozenset(
    (
        "arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "module",
        "name", "rest", "simple", "tag", "type_comment",
    )
)  # fmt: skip
"""Fields that hold a name, a number or nothing in every class of Python's grammar; and `ctx`, whose
mark every other node of a tree would be."""

_MIXED = frozenset({"keys", "kw_defaults", "kwd_attrs"})
"""Fields with rows whose members are not all nodes."""

_fields: dict[type[ast.AST], tuple[str, ...]] = dict.fromkeys(
    (ast.Constant, ast.Global, ast.Nonlocal), ()
)
"""By class, fields that may hold nodes."""

_Node = TypeVar("_Node", bound=ast.AST)


def children(node: ast.AST) -> list[ast.AST]:
    """What `ast.iter_child_nodes` gives, in its order, without the marks `Load`, `Store`, `Del`."""
    found: list[ast.AST] = []
    fields = _fields.get(type(node))
    for name in _of(node) if fields is None else fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += value if name not in _MIXED else _nodes(value)
        elif value is not None:
            found.append(value)
    return found


def walk(node: ast.AST) -> Sequence[ast.AST]:
    """What `ast.walk` gives, in its order, without these marks; of what has a body, kept for those
    who ask again."""
    return _kept(node) if isinstance(node, _WITH_BODY) else _walk(node)


def each(node: ast.AST, kind: type[_Node]) -> Sequence[_Node]:
    """The nodes of one class in a walk, in its order."""
    if isinstance(node, _WITH_BODY):
        return cast("Sequence[_Node]", _by_class(node).get(kind, ()))
    if isinstance(node, ast.Module):
        return cast("Sequence[_Node]", _classes_of(node).get(kind, ()))
    return [one for one in _walk(node) if isinstance(one, kind)]


_WITH_BODY = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.With,
    ast.Try,
)  # fmt: skip


@lru_cache(maxsize=1024)
def _kept(node: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(_walk(node))


@lru_cache(maxsize=1024)
def _by_class(node: ast.AST) -> dict[type[ast.AST], list[ast.AST]]:
    return _sorted(_kept(node))


@lru_cache(maxsize=16)
def _classes_of(tree: ast.Module) -> dict[type[ast.AST], list[ast.AST]]:
    return _sorted(nodes_of(tree))


def _sorted(nodes: Sequence[ast.AST]) -> dict[type[ast.AST], list[ast.AST]]:
    found: dict[type[ast.AST], list[ast.AST]] = {}
    for node in nodes:
        kind = type(node)
        if kind in found:
            found[kind].append(node)
        else:
            found[kind] = [node]
    return found


def _walk(node: ast.AST) -> list[ast.AST]:
    found = [node]
    for one in found:
        fields = _fields.get(type(one))
        for name in _of(one) if fields is None else fields:
            value = getattr(one, name, None)
            if isinstance(value, list):
                found += value if name not in _MIXED else _nodes(value)
            elif value is not None:
                found.append(value)
    return found


def _nodes(row: list[ast.AST | str | None]) -> list[ast.AST]:
    return [item for item in row if isinstance(item, ast.AST)]


def _of(node: ast.AST) -> tuple[str, ...]:
    kind = type(node)
    found = _fields[kind] = tuple(name for name in kind._fields if name not in _PLAIN)
    return found


@lru_cache(maxsize=4)
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of one module, walked once for everyone who looks for some of them."""
    return tuple(_walk(tree))
