"""What a reader did not understand: operations kept as opaque."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.syntax.nodes import each
from kb.evidence import Diagnostic, Severity
from kb.ir import Kernel, Op, kernel_ops
from kb.ops import NAMED, OpKind

MAX_NOTES = 60
"""Notes on opaque operations that one kernel may leave."""

_COMPUTED = (ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.UnaryOp)


def computed(node: object) -> bool:
    """Whether an argument of a call means something without it: an operation, or a part of what
    one gives."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return isinstance(node, _COMPUTED)


def names_in(node: object) -> set[str]:
    """The names that something written in Python reads."""
    return {inner.id for inner in each(node, ast.Name)} if isinstance(node, ast.AST) else set()


def opaque_ops(kernel: Kernel) -> tuple[Op, ...]:
    """The operations of a program that the reader did not understand."""
    return tuple(op for op in kernel_ops(kernel) if op.kind == OpKind.OPAQUE)


def opaque_notes(kernel: Kernel, table: str) -> Iterator[Diagnostic]:
    """One warning for each place and text, at most MAX_NOTES; `table` is the file of the dialect,
    where a row may be added."""
    places = {(str(op.attribute("what")), op.span.line): op.span for op in opaque_ops(kernel)}
    for (what, _), span in list(places.items())[:MAX_NOTES]:
        shown = what.removeprefix(NAMED)
        yield Diagnostic(
            severity=Severity.WARNING,
            message=f"{kernel.name}: `{shown}` has no operation; kept as opaque.",
            hint=f"Add a row to {table} if it is a call.",
            lines=span.lines,
        )
