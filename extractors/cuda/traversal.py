"""Everything that stands in a piece of CUDA C++."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from extractors.cuda.node_base import Node
from extractors.cuda.node_fields import Held, held, nothing

if TYPE_CHECKING:
    from extractors.cuda.nodes import Expr, Stmt


def inside(node: object) -> Iterator[Expr | Stmt]:
    """Every expression and statement of a tree, the tree itself first; of a block, kept for those
    who ask again."""
    if not isinstance(node, Node) or not node.kept:
        return _inside(node)
    kept = _INSIDE.get(id(node))
    if kept is None:
        if len(_INSIDE) >= MAX_BLOCKS:
            _INSIDE.clear()
        kept = _INSIDE[id(node)] = node, tuple(_inside(node))
    return iter(kept[1])


_INSIDE: dict[int, tuple[Node, tuple[Expr | Stmt, ...]]] = {}
"""What stands in blocks, each with its block, whose number is its as long as it is kept."""

MAX_BLOCKS = 2_000


def _inside(node: object) -> Iterator[Expr | Stmt]:
    pending: list[Any] = [node]
    while pending:
        kind = type(current := pending.pop())
        if kind is tuple:
            pending += current[::-1]
        elif (below := _HELD.get(kind) or _below(kind)) is not nothing:
            yield current
            pending += below(current)


def parts(node: Expr | Stmt) -> list[object]:
    """What stands directly in a node, the last first: expressions, statements, tuples of them."""
    below = _HELD.get(type(node)) or _below(type(node))
    return [value for value in below(node) if isinstance(value, (tuple, Node))]


_HELD: dict[type, Held] = {}


def _below(kind: type) -> Held:
    return _HELD.setdefault(kind, held(kind) if issubclass(kind, Node) else nothing)
