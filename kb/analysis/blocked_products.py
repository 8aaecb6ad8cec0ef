"""Products of two tiles in shared memory, of which every thread sums a block in registers."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.exchanges import dot_product
from kb.analysis.graph import CASTS, LOOPS, Graph, Node
from kb.analysis.shared import SharedMemory
from kb.ir import Op, walk
from kb.ops import ATOMICS, READS, WRITES, OpKind

MAX_VALUES = 400
"""Values that are looked at in one loop."""

_PASSED = CASTS | {OpKind.EXTRACT, OpKind.COPY, OpKind.BITCAST}
_BEGINNINGS = frozenset({OpKind.UNDEF, OpKind.ZEROS, OpKind.FULL})


def tile_product(graph: Graph, shared: SharedMemory, op: Op) -> tuple[Op, Op, str, str] | None:
    """(left load, right load, first value, result) of a loop that adds products of two tiles in
    shared memory to a carried value or to an array of registers."""
    return dot_product(graph, shared, op) or register_product(graph, shared, op)


def register_product(graph: Graph, shared: SharedMemory, op: Op) -> tuple[Op, Op, str, str] | None:
    """The same of a loop that only adds products of elements of two shared tiles to an array of
    registers."""
    end = op.regions[-1].terminator
    if op.kind != OpKind.FOR or end is None or end.kind != OpKind.YIELD or not op.results:
        return None
    if not _only_shared(shared, op):
        return None
    inits = [value for role, value in op.operands if role == "init"]
    found = []
    for position, argument in enumerate(op.regions[-1].arguments[1:]):
        result = op.results[position]
        array = result.type is not None and bool(result.type.shape)
        pairs = _added(graph, end.inputs[position], argument.name) if array else []
        if not pairs:
            continue
        sides = [[_of_one_place(graph, shared, side) for side in pair] for pair in pairs]
        loads = [load for pair in sides for load in pair if load is not None]
        places = {shared.place(load) for load in loads}
        apart = all(len({shared.place(one) for one in pair if one}) == 2 for pair in sides)
        if len(places) != 2 or not apart:
            return None
        found.append((loads[0], loads[1], inits[position], result.name))
    return found[0] if len(found) == 1 else None


def _only_shared(shared: SharedMemory, op: Op) -> bool:
    """Whether a loop touches no memory but reads of shared tiles, at least two."""
    loads = 0
    for inner in walk(op.regions[-1]):
        if inner.kind in READS and shared.holds(inner) and shared.stored(inner):
            loads += 1
        elif inner.kind in READS or inner.kind in WRITES or inner.kind in ATOMICS:
            return False
    return loads > 1


def _added(graph: Graph, next_: str, argument: str) -> list[tuple[str, str]]:
    """Factors of the products that are added to a carried value; empty when something else is."""
    found: list[tuple[str, str]] = []
    pending, seen = [next_], {next_}

    def more(*values: str | None) -> None:
        for value in values:
            if value is not None and value not in seen:
                seen.add(value)
                pending.append(value)

    for value in pending:
        node = graph.producer(value)
        if node is None:
            continue
        if len(pending) > MAX_VALUES:
            return []
        kind = node.op.kind
        if kind in _PASSED:
            more(node.op.inputs[0])
        elif kind == OpKind.INSERT:
            more(node.op.inputs[0], node.op.operand("value"))
        elif kind in LOOPS or kind in (OpKind.IF, OpKind.SELECT):
            more(*_handed(graph, node, value))
        elif kind == OpKind.FMA:
            found.append((node.op.inputs[0], node.op.inputs[1]))
            more(node.op.inputs[2])
        elif kind == OpKind.ADD:
            products = [v for v in node.op.inputs[:2] if graph.kind_of(v) == OpKind.MUL]
            if len(products) != 1:
                return []
            factors = graph.defs[products[0]].op.inputs
            found.append((factors[0], factors[1]))
            more(*(v for v in node.op.inputs[:2] if v != products[0]))
        elif kind not in _BEGINNINGS:
            return []
    return found if argument in seen else []


def _handed(graph: Graph, node: Node, value: str) -> Iterator[str]:
    if node.op.kind == OpKind.SELECT:
        yield from node.op.inputs[1:3]
    else:
        yield from graph.feeds(value)


def _of_one_place(graph: Graph, shared: SharedMemory, factor: str) -> Op | None:
    """A load of the one shared tile that a factor is an element of, perhaps through registers."""
    loads: list[Op] = []
    pending, seen = [factor], {factor}
    for value in pending:
        node = graph.producer(value)
        if len(pending) > MAX_VALUES:
            return None
        if node is None:
            feeds: tuple[str | None, ...] = graph.feeds(value)
        elif node.op.kind in READS:
            loads.append(node.op)
            continue
        elif node.op.kind in _PASSED:
            feeds = (node.op.inputs[0],)
        elif node.op.kind == OpKind.INSERT:
            feeds = (node.op.inputs[0], node.op.operand("value"))
        elif node.op.kind in LOOPS or node.op.kind == OpKind.IF:
            feeds = graph.feeds(value)
        elif node.op.kind in _BEGINNINGS:
            continue
        else:
            return None
        for feed in feeds:
            if feed is not None and feed not in seen:
                seen.add(feed)
                pending.append(feed)
    places = {shared.place(load) for load in loads if shared.holds(load)}
    same = len(places) == 1 and all(shared.holds(load) for load in loads)
    return loads[0] if same else None
