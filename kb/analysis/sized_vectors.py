"""Vectors of as many elements as a number of bytes holds of their type."""

from __future__ import annotations

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


def counted(graph: Graph, moved: TileType | None) -> list[Node]:
    """Where a kernel says how many elements move, of which there is no number."""
    shape = moved.shape if moved is not None else ()
    names = [graph.through(extent, CASTS | COPIES) for extent in shape if not extent.isdigit()]
    made = [graph.producer(name) for name in names]
    return [n for n in made if n is not None and n.op.kind not in LOOPS]
