"""What a vector access asks of the sizes that its address is made of.

Source: NVIDIA, CUDA C++ Programming Guide, device memory accesses: an address is a multiple of the
size of what is read there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from kb.analysis.facts import Facts
from kb.analysis.graph import Lines, Node
from kb.analysis.symbolic import AtomKind
from kb.analysis.values import Values
from kb.ir import ParameterKind, TileType
from kb.ops import READS, WRITES, OpKind

_MOVING = frozenset({OpKind.ADD, OpKind.COPY, OpKind.POINTER_CAST})


@dataclass(frozen=True, slots=True)
class WholeVectors:
    """A size that scales the place of vectors of `elements`: it must be a multiple of them."""

    size: str
    elements: int
    lines: Lines


def whole_vectors(facts: Facts) -> Iterator[WholeVectors]:
    """Sizes given at the launch that move a pointer before it is read as one to vectors."""
    if not facts.of_threads:
        return
    graph = facts.threads
    values = Values(graph)
    scalars = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.SCALAR}
    for cast in graph.of(OpKind.POINTER_CAST):
        elements = _elements(graph.producer(cast.op.inputs[0]), cast)
        accesses = list(_accesses(facts, cast)) if elements > 1 else []
        for factors, times in values.expr(cast.op.inputs[0]).terms if accesses else ():
            sizes = [a.value for a in factors if a.kind is AtomKind.PARAMETER]
            moved = any(a.kind in (AtomKind.BLOCK, AtomKind.INDUCTION) for a in factors)
            if moved and len(sizes) == 1 and sizes[0] in scalars and times % elements:
                yield WholeVectors(sizes[0], elements, accesses[0].lines)


def _elements(below: Node | None, cast: Node) -> int:
    """How many elements a vector holds of the type that the pointer had before; 0 when unknown."""
    rows = [node.op.results[0].type for node in (below, cast) if node is not None]
    if len(rows) != 2 or not all(isinstance(row, TileType) for row in rows):
        return 0
    before, after = rows
    if before is None or after is None or before.dtype != after.dtype or before.shape:
        return 0
    known = after.shape and all(extent.isdigit() for extent in after.shape)
    return prod(map(int, after.shape)) if known else 0


def _accesses(facts: Facts, cast: Node) -> Iterator[Node]:
    """Loads and stores through a pointer, moved by whole vectors or not at all."""
    pending = [cast.result]
    for value in pending:
        for user in facts.threads.users(value):
            if user.op.kind in READS | WRITES:
                yield user
            elif user.op.kind in _MOVING and user.op.inputs[0] == value and len(pending) < 64:
                pending.append(user.result)
