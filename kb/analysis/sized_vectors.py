"""Vectors of as many elements as a number of bytes holds of their type."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from kb.analysis.graph import CASTS, COPIES, LOOPS, Graph, Node
from kb.ir import TileType
from kb.ops import OpKind

_WHOLE = (OpKind.FLOOR_DIV, OpKind.DIV)


def sized(graph: Graph, moved: TileType | None) -> tuple[int, Node] | None:
    """Bits of a vector, with where they are divided by the size of its own element: so many move,
    whatever the type is. None when its extent is told otherwise, or by the size of another type."""
    if moved is None or len(moved.shape) != 1:
        return None
    node = graph.producer(graph.through(moved.shape[0], CASTS | COPIES))
    if node is None or node.op.kind not in _WHOLE:
        return None
    whole, part = (graph.producer(graph.through(v, CASTS | COPIES)) for v in node.op.inputs[:2])
    size = whole.op.attribute("value") if whole is not None else None
    if not isinstance(size, int) or part is None or part.op.kind != OpKind.SIZE_OF:
        return None
    return (8 * size, node) if moved.dtype == f"dtypeof({part.op.inputs[0]})" else None


def elements(graph: Graph, value: str, nodes: Iterable[Node]) -> list[Node]:
    """Where a kernel counts the elements of its vectors: of so many bits, or of the type that the
    places of these accesses are counted by."""
    places = [n.op.operand("pointer") or next(iter(n.op.inputs), "") for n in nodes]
    return [
        node
        for bits, node in _divided(graph)
        if node.op.span.origin is None
        if (value == f"{bits}-bit" if bits else any(graph.rests_on(p, node) for p in places))
    ]


@lru_cache(maxsize=2)
def _divided(graph: Graph) -> list[tuple[int, Node]]:
    """Where a kernel divides a number of bytes by the size of an element, with so many bits; none
    for the size of an open type. What the reader has worked out stands behind what it was made
    of."""
    found = []
    for node in graph.of(*_WHOLE):
        whole, part = (graph.producer(graph.through(v, CASTS | COPIES)) for v in node.op.inputs[:2])
        if whole is None or part is None or part.op.kind != OpKind.SIZE_OF:
            continue
        size = whole.op.attribute("value")
        if isinstance(size, int) or whole.op.kind == OpKind.SIZE_OF:
            bits = 8 * size if isinstance(size, int) else 0
            found += [(bits, n) for n in (whole, node)]
    for whole, part, node in zip(*(graph.of(OpKind.CONST)[n:] for n in range(3)), strict=False):
        size, each, many = (n.op.attribute("value") for n in (whole, part, node))
        if _is_size(part) and _is_size(node) and isinstance(size, int) and isinstance(each, int):
            apart = each and node.index == whole.index + 2
            if apart and many == size // each > 1 and size % each == 0:
                found += [(8 * size, n) for n in (whole, node)]
    return found


def _is_size(node: Node) -> bool:
    """True for a number in the type that sizes of types have."""
    type_ = node.op.results[0].type
    return type_ is not None and type_.dtype == "u64"


def counted(graph: Graph, moved: TileType | None) -> list[Node]:
    """Where a kernel says how many elements move, of which there is no number."""
    shape = moved.shape if moved is not None else ()
    names = [graph.through(extent, CASTS | COPIES) for extent in shape if not extent.isdigit()]
    made = [graph.producer(name) for name in names]
    return [n for n in made if n is not None and n.op.kind not in LOOPS]
