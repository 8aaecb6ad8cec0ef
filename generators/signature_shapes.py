"""blocks and sizes: what a program says of the shape of what it loads and stores.

The block of a tensor descriptor is chosen by the host; the kernel tells it by the shape that it
gives to the block. A reshape keeps the number of elements, which ties the constants of both shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from generators.compile_model import Argument
from kb.analysis.graph import Graph, Node
from kb.analysis.values import Values
from kb.errors import TileloreError
from kb.ir import Kernel, Op, Region, walk
from kb.ops import OpKind
from kb.planner.evaluation import evaluate
from kb.planner.expressions import parse

_DESCRIBED = (OpKind.DESCRIPTOR_STORE, OpKind.DESCRIPTOR_LOAD)
"""Stores first: the block of a store is the shape of its value, that of a load is told in part."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes of one program, its helpers inlined into `graph` as far as they can be."""

    kernel: Kernel
    graph: Graph
    values: Values

    def number(self, value: str | None, known: Mapping[str, int]) -> int | None:
        """A whole number, when the constants `known` by name decide it."""
        literal = self.values.literal(value)
        if isinstance(literal, int):
            return literal
        try:
            found = evaluate(parse(str(self.values.expr(value))), known)
        except TileloreError:
            return None
        return found if isinstance(found, int) else None

    # -- blocks of descriptors

    def blocks(
        self, arguments: Mapping[str, Argument], known: Mapping[str, int]
    ) -> dict[str, Shape]:
        """Extents of the block of every descriptor whose accesses tell them, by parameter."""
        found: dict[str, Shape] = {}
        for kind in _DESCRIBED:
            for node in self.graph.of(kind):
                name = self.graph.plain(node.op.operand("descriptor"))
                rank = self._length(node.op.operand("offsets"))
                if name is None or name not in arguments or name in found or not rank:
                    continue
                shape = self._stored(node, arguments, known) or self._loaded(node, rank, known)
                if len(shape) == rank:
                    found[name] = shape
        return found

    def _length(self, value: str | None) -> int:
        """Items of a list, also of one that a helper hands over in another order per layout."""
        made = self.graph.producer(value)
        if made is None or made.op.kind != OpKind.CALL:
            return len(self.values.items(value))
        callee = made.op.attribute("callee")
        bodies = [helper.body for helper in self.kernel.helpers if helper.name == callee]
        lengths = {len(op.inputs) for body in bodies for op in _returned(body)}
        return lengths.pop() if len(lengths) == 1 else 0

    def _stored(
        self, node: Node, arguments: Mapping[str, Argument], known: Mapping[str, int]
    ) -> Shape:
        made = self.graph.producer(node.op.operand("value"))
        value = node.op.operand("value")
        while made is not None and made.op.kind in (OpKind.CAST, OpKind.COPY, OpKind.IF):
            branch = made.op.kind == OpKind.IF
            value = self._taken(made, str(value), arguments) if branch else made.op.inputs[0]
            made = self.graph.producer(value)
        return self._extents(made, known)

    def _taken(self, branch: Node, value: str, arguments: Mapping[str, Argument]) -> str | None:
        """What a branch hands over as `value`; the first side unless a word says that it is the
        other.
        """
        test = self.graph.producer(branch.op.operand("condition"))
        side = 0
        if test is not None and test.op.kind == OpKind.EQ:
            name, word = test.op.inputs[0], self.values.literal(test.op.inputs[1])
            side = int(name in arguments and arguments[name].value != word)
        ends = self.graph.handed(branch, side)
        place = [result.name for result in branch.op.results].index(value)
        return ends[place] if place < len(ends) else None

    def _loaded(self, node: Node, rank: int, known: Mapping[str, int]) -> Shape:
        """The extents that a reshape of the block keeps, on its last axes; the others are 1."""
        shapes = (self._extents(user, known) for user in self.graph.users(node.result))
        shape = tuple(extent for extent in next(filter(None, shapes), ()) if extent != 1)
        return (1,) * (rank - len(shape)) + shape if shape else ()

    def _extents(self, node: Node | None, known: Mapping[str, int]) -> Shape:
        """The shape that a reshape asks for; empty when it is unknown."""
        if node is None or node.op.kind != OpKind.RESHAPE:
            return ()
        items = self.values.shape_items(node)
        extents = [self.number(item, known) for item in items]
        return tuple(extent for extent in extents if extent) if all(extents) else ()

    # -- sizes

    def gathered(self, known: dict[str, int]) -> dict[str, int]:
        """Constants that make tiles gathered by rows as large as the shape that they then get."""
        found: dict[str, int] = {}
        for node in self.graph.of(OpKind.LOAD_ADVANCED):
            names = [name for item in self.values.items(node.op.operand("index"))
                     for name in self._axes(item)]  # fmt: skip
            for user in self.graph.users(node.result):
                wanted = prod(self._extents(user, known | found))
                sizes = [self.number(name, known | found) for name in names]
                if wanted and all(sizes):
                    found |= self._evened(names, wanted, known | found)
        return found

    def _axes(self, item: str) -> tuple[str, ...]:
        """Values that are the extents of one item of an index: of a slice, or of a row of ids."""
        made = self.graph.producer(self.graph.core(item))
        if made is None:
            return ()
        if made.op.kind == OpKind.SLICE:
            return (made.op.operand("length") or "",)
        rows = self.graph.roots(item, OpKind.ARANGE)
        return tuple(node.op.operand("size") or "" for node in rows[:1])

    def _evened(self, names: list[str], wanted: int, known: Mapping[str, int]) -> dict[str, int]:
        """One of the extents, made larger or smaller until their product is what is wanted."""
        sizes = [self.number(name, known) or 0 for name in names]
        for name, size in zip(names, sizes, strict=True):
            rest = prod(sizes) // size
            if prod(sizes) != wanted and name in known and wanted % rest == 0:
                return {name: wanted // rest}
        return {}


def _returned(body: Region) -> Iterator[Op]:
    """The lists and tuples that a function hands back."""
    made = {value.name: op for op in walk(body) for value in op.results}
    for op in walk(body):
        list_ = made.get(op.inputs[0]) if op.kind == OpKind.RETURN and op.inputs else None
        if list_ is not None and list_.kind in (OpKind.LIST, OpKind.TUPLE):
            yield list_
