"""Where a libcst node stands in its file, in the coordinates of the standard `ast` module.

Lines count from 1. Columns count from 0 in characters (code points), where `ast.parse` counts UTF-8
bytes: the two differ only to the right of a character outside ASCII, and characters are what an
editor and a reader count.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import CodeRange

from kb.errors import SyntaxProblem

Extent = tuple[int, int, int, int]
"""First line, first column, last line, column after the last character."""

Located = TypeVar("Located", bound=ast.AST)


class Places:
    """The extents of one parsed file, and the text between them."""

    def __init__(
        self, lines: list[str], ranges: Mapping[cst.CSTNode, CodeRange], path: str
    ) -> None:
        self.lines = lines
        self.ranges = ranges
        self.path = path

    def of(self, node: cst.CSTNode) -> Extent:
        """The extent of a node without the parentheses around it."""
        found = self.ranges[node]
        start, end = found.start, found.end
        return (start.line, start.column, end.line, end.column)

    def outer(self, node: Any) -> Extent:
        """The extent of a node with all parentheses around it."""
        inner = self.of(node)
        if not getattr(node, "lpar", ()):
            return inner
        return (*self.of(node.lpar[0])[:2], *self.of(node.rpar[-1])[2:])

    def inner(self, node: Any) -> Extent:
        """The extent of a node with its innermost parentheses, as `ast` places a tuple."""
        bare = self.of(node)
        if not node.lpar:
            return bare
        return (*self.of(node.lpar[-1])[:2], *self.of(node.rpar[0])[2:])

    def put(self, new: Located, extent: Extent) -> Located:
        """Set the four position attributes of a new `ast` node and return it."""
        located: Any = new
        located.lineno, located.col_offset, located.end_lineno, located.end_col_offset = extent
        return new

    def text(self, start: tuple[int, int], end: tuple[int, int]) -> str:
        """The source between two places."""
        (line, column), (end_line, end_column) = start, end
        if line == end_line:
            return self.lines[line - 1][column:end_column]
        first = self.lines[line - 1][column:]
        last = self.lines[end_line - 1][:end_column]
        return "\n".join([first, *self.lines[line : end_line - 1], last])

    def problem(self, node: cst.CSTNode, message: str, hint: str) -> SyntaxProblem:
        """An error at a node, as `path:line:column`; the column counts from 1, as editors do."""
        line, column, _, _ = self.of(node)
        return SyntaxProblem(message, where=f"{self.path}:{line}:{column + 1}", hint=hint)


def joined(first: Extent, last: Extent) -> Extent:
    """From the start of one extent to the end of another."""
    return (*first[:2], *last[2:])
