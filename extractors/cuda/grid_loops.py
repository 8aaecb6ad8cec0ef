"""Loops over ranges of a library that give every thread of the grid its share of some numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from extractors.cuda import nodes as n

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

    from extractors.cuda.parse_statements import Declared

_AXES = {"tv::KernelLoopX": "x", "tv::KernelLoopY": "y", "tv::KernelLoopZ": "z"}
"""Functions that give such a range, with the axis of the grid: numbers from the thread's own on, as
many at a time as the grid has threads, times the second template argument. Source: spconv,
tensorview/helper_kernel.cuh."""


class _Builder(Protocol):
    """What reads the parts."""

    def at(self, node: Syntax) -> n.Place:
        """Where a node stands."""
        ...

    def expression(self, node: Syntax | None) -> n.Expr:
        """The expression of a node."""
        ...

    def written(self, node: Syntax | None) -> n.CType:
        """The type of a node."""
        ...

    def declarator(self, node: Syntax | None, kind: n.CType) -> Declared:
        """A declared name with its type."""
        ...

    def block(self, node: Syntax | None) -> n.Block:
        """The statements of a body."""
        ...

    def unread(self, node: Syntax) -> n.Unread:
        """A form without a node of its own."""
        ...


def ranged(builder: _Builder, node: Syntax) -> tuple[n.Stmt, ...]:
    """`for (int i : KernelLoopX<int>(count))` as the loop that counts; other ranges are skipped."""
    over = builder.expression(node.child_by_field_name("right"))
    kind = builder.written(node.child_by_field_name("type"))
    held = builder.declarator(node.child_by_field_name("declarator"), kind)
    named = over.function if isinstance(over, n.Call) and len(over.arguments) == 1 else None
    axis = _AXES.get(named.text) if isinstance(named, n.Name) else None
    if axis is None or not isinstance(over, n.Call) or not isinstance(named, n.Name):
        inner = builder.unread(node)
        return (n.Skipped(inner.at, inner.what, inner.inner),)
    at = over.at
    block, width, blocks, thread = (
        n.Field(at, n.Name(at, name), axis)
        for name in ("blockIdx", "blockDim", "gridDim", "threadIdx")
    )
    first = n.Binary(at, "+", n.Binary(at, "*", block, width), thread)
    step: n.Expr = n.Binary(at, "*", blocks, width)
    times = named.arguments[1] if len(named.arguments) > 1 else None
    if times is not None:
        by = n.Name(at, times.name) if isinstance(times, n.CType) else times
        step = n.Binary(at, "*", step, by)
    index = n.Name(at, held.name)
    begun = n.Variable(builder.at(node), held.name, held.type, first)
    body = builder.block(node.child_by_field_name("body"))
    bound = n.Binary(at, "<", index, over.arguments[0])
    return (n.For(builder.at(node), (begun,), bound, n.Assign(at, "+", index, step), body),)
