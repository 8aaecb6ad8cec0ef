"""Where types and names that a program uses are declared, as far as its reader noted it."""

from __future__ import annotations

from collections.abc import Collection

from kb.analysis.graph import Node
from kb.evidence import Lines
from kb.ir import Function, Place, Span


def declared_at(node: Node, home: str) -> list[Lines]:
    """Of the type, or of the field, that an operation takes: the lines in the kernel's file; for
    those of other files, the lines of the operation."""
    return _noted(node.op.span, home)


def fields_at(function: Function, names: Collection[str], home: str) -> list[Lines]:
    """Of fields that are parameters of their own: the lines of the kernel's file; for those of
    other files, the lines of the struct among the parameters."""
    return [
        lines
        for one in function.parameters
        if one.name in names and one.struct
        for lines in _noted(one.span, home)
    ]


def _noted(span: Span, home: str) -> list[Lines]:
    own = (span.line, max(span.line, span.end_line))
    return [lines if path == home else Place(own, (path, lines)) for path, lines in span.declared]
