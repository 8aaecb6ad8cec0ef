"""Tensors that a kernel is handed with their extents and strides: `t[i][j]` is an element of their
data, so many strides from the first. Source: PyTorch, ATen/core/TensorAccessor.h."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from typing import Any

from extractors.cuda import nodes as n
from extractors.cuda.public_headers import ACCESSORS, RESTRICTED
from extractors.cuda.values import Kind

_NAMES = frozenset(name for name, _, _ in ACCESSORS)
MAX_AXES = 8


def by_strides(parameters: Sequence[n.Variable], body: n.Block) -> n.Block:
    """The body of a function with the elements of its accessors written out; where only some of
    their axes are given it stays as it is."""
    axes = {one.name: count for one in parameters if (count := _axes(one.type))}
    return _written(body, axes) if axes else body


def restricted(kind: n.CType) -> bool:
    """Whether a type, as it is written, is an accessor to whose data nothing else leads."""
    words = [one.name.rpartition("::")[2] for one in kind.arguments if isinstance(one, n.CType)]
    return kind.name.rpartition("::")[2] in _NAMES and RESTRICTED in words


def promised(kind: Kind) -> bool:
    """The same of a type that is followed."""
    traits = [one.record.rpartition("::")[2] for one in kind.arguments if isinstance(one, Kind)]
    return kind.record.rpartition("::")[2] in _NAMES and RESTRICTED in traits


def _axes(kind: n.CType) -> int:
    """How many axes an accessor has; 0 of what is none, or where the number is no literal."""
    if kind.name.rpartition("::")[2] not in _NAMES or kind.pointers or len(kind.arguments) < 2:
        return 0
    count = kind.arguments[1]
    if not isinstance(count, n.Constant) or type(count.value) is not int:
        return 0
    return count.value if count.value <= MAX_AXES else 0


def _written(node: Any, axes: dict[str, int]) -> Any:
    if isinstance(node, tuple):
        return tuple([_written(one, axes) for one in node])
    if not isinstance(node, n.Expr | n.Stmt):
        return node
    if isinstance(node, n.Index) and (found := _element(node, axes)) is not None:
        return found
    held = {one.name: getattr(node, one.name) for one in fields(node)}
    return replace(node, **{
        name: _written(value, axes) for name, value in held.items()
        if isinstance(value, tuple | n.Expr | n.Stmt)
    })  # fmt: skip


def _element(node: n.Index, axes: dict[str, int]) -> n.Index | None:
    """`data[i * strides[0] + j * strides[1]]`, where all axes of an accessor are given."""
    given: list[n.Expr] = []
    inner: n.Expr = node
    while isinstance(inner, n.Index) and len(given) < MAX_AXES:
        given.insert(0, _written(inner.index, axes))
        inner = inner.operand
    if not isinstance(inner, n.Name) or axes.get(inner.text) != len(given):
        return None
    offset = _sum([_times(one, inner, axis) for axis, one in enumerate(given)])
    return n.Index(node.at, n.Field(node.at, inner, "data_"), offset)


def _times(index: n.Expr, tensor: n.Name, axis: int) -> n.Expr:
    at = index.at
    stride = n.Index(at, n.Field(at, tensor, "strides_"), n.Constant(at, axis, "i32"))
    return n.Binary(at, "*", index, stride)


def _sum(terms: Collection[n.Expr]) -> n.Expr:
    first, *rest = terms
    for one in rest:
        first = n.Binary(first.at, "+", first, one)
    return first
