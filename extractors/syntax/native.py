"""The tree of the running Python's own parser, in the coordinates that `places` describes.

It is a hundred times as fast as libcst and reads what the running Python reads. Two things differ
from what `parse_module` promises and are put right here: columns count bytes, and up to Python 3.11
nodes inside a formatted string do not say where they stand.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from typing import Any

from extractors.syntax.builtin_parser import python_module
from extractors.syntax.nodes import children

LOCATES_FORMATTED = sys.version_info >= (3, 12)

_FORMATTED = re.compile(r"[fF][rR]?['\"]")
_NEWER = tuple(
    getattr(ast, name)
    for name in ("TypeAlias", "TypeVar", "ParamSpec", "TypeVarTuple", "TemplateStr")
    if hasattr(ast, name)
)
"""Nodes that `parse_module` gives in a plain form."""


def native_tree(source: str, slow: Callable[[str], ast.Module]) -> ast.Module | None:
    """What Python reads; None when it refuses the text or reads grammar that has a plain form.

    `slow` reads the formatted strings again that are not located, as a module of its own.
    """
    try:
        tree = python_module(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    look = not LOCATES_FORMATTED and _FORMATTED.search(source) is not None
    if not look and source.isascii() and not _NEWER:
        return tree
    lines = source.split("\n")
    wide = {at: line.encode() for at, line in enumerate(lines, 1) if not line.isascii()}
    formatted = _settle(tree, wide)
    if formatted is None:
        return None
    if look and formatted:
        _locate(formatted, lines, slow)
    return tree


def _settle(tree: ast.Module, wide: dict[int, bytes]) -> list[ast.JoinedStr] | None:
    """Make columns count characters in the lines where these are no bytes; the outermost formatted
    strings, or None on newer grammar."""
    found: list[ast.JoinedStr] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node: Any = waiting.pop()
        if _NEWER and isinstance(node, _NEWER):
            return None
        if wide and hasattr(node, "lineno"):
            start, end = wide.get(node.lineno), wide.get(node.end_lineno)
            if start is not None:
                node.col_offset = len(start[: node.col_offset].decode(errors="replace"))
            if end is not None:
                node.end_col_offset = len(end[: node.end_col_offset].decode(errors="replace"))
        if isinstance(node, ast.JoinedStr) and not LOCATES_FORMATTED:
            found.append(node)
            continue
        waiting += children(node)
    return found


def _locate(
    formatted: list[ast.JoinedStr], lines: list[str], slow: Callable[[str], ast.Module]
) -> None:
    """Give every formatted string the parts that a slower reading of its text alone locates."""
    texts = [_text(node, lines) for node in formatted]
    first = 1
    for node, text, statement in zip(
        formatted, texts, slow("".join(f"({text})\n" for text in texts)).body, strict=True
    ):
        assert isinstance(statement, ast.Expr)
        assert isinstance(statement.value, ast.JoinedStr)
        node.values = statement.value.values
        _shift(node.values, first, node.lineno - first, node.col_offset - 1)
        first += text.count("\n") + 1


def _text(node: ast.JoinedStr, lines: list[str]) -> str:
    assert node.end_lineno is not None
    if node.lineno == node.end_lineno:
        return lines[node.lineno - 1][node.col_offset : node.end_col_offset]
    first = lines[node.lineno - 1][node.col_offset :]
    last = lines[node.end_lineno - 1][: node.end_col_offset]
    return "\n".join([first, *lines[node.lineno : node.end_lineno - 1], last])


def _shift(nodes: list[ast.expr], first: int, lines: int, columns: int) -> None:
    """Move nodes that were read elsewhere; columns move on the `first` line only."""
    waiting: list[Any] = list(nodes)
    while waiting:
        node = waiting.pop()
        if hasattr(node, "lineno"):
            node.col_offset += columns if node.lineno == first else 0
            node.end_col_offset += columns if node.end_lineno == first else 0
            node.lineno += lines
            node.end_lineno += lines
        waiting += children(node)
