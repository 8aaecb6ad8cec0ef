"""CUB's loads and stores of a block: what every thread moves of its run of elements."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.core import Core
from extractors.cuda.values import Kind, Memory, Val

MAX_ITEMS = 32
"""Elements of a thread that are written down one by one."""

_VECTORS = frozenset({"BLOCK_LOAD_VECTORIZE", "BLOCK_STORE_VECTORIZE"})
"""Algorithms that move the run of a thread as vectors, where all of it is there. Source: CUB,
BlockLoad and BlockStore."""


def block_move(
    reader: Core, node: n.Call, method: str, written: n.CType, kind: Kind
) -> Val | None:  # fmt: skip
    """`BlockLoad<T, threads, items, algorithm>(room).Load(from, to[, valid[, other]])`: element by
    element under the count that is valid, or the whole run at once; None for what is no such
    move, or of an unknown number of elements. A store under a count stays unread."""
    if (kind.record.rpartition("::")[2], method) not in (("BlockLoad", "Load"),
                                                         ("BlockStore", "Store")):  # fmt: skip
        return None
    count = kind.arguments[2] if len(kind.arguments) > 2 else None
    items = count.const if isinstance(count, Val) else None
    given = node.arguments
    if not isinstance(items, int) or not 0 < items <= MAX_ITEMS or not 2 <= len(given) <= 4:
        return None
    if method == "Store" and len(given) > 2:
        return None
    algorithm = written.arguments[3] if len(written.arguments) > 3 else None
    name = algorithm.name if isinstance(algorithm, n.CType) else getattr(algorithm, "text", "")
    first = _run(node.at, items)
    if name.rpartition("::")[2] in _VECTORS and len(given) == 2:
        return _at_once(reader, node, method, first, items)
    for number in range(items):
        _one(reader, node, method, first, number)
    return Val("")


def _run(at: n.Place, items: int) -> n.Expr:
    """The place of a thread's first element."""
    thread = n.Field(at, n.Name(at, "threadIdx"), "x")
    return n.Binary(at, "*", thread, n.Constant(at, items, "i32")) if items > 1 else thread


def _one(reader: Core, node: n.Call, method: str, first: n.Expr, number: int) -> None:
    """Move one element of the run."""
    at, given = node.at, node.arguments
    index = n.Binary(at, "+", first, n.Constant(at, number, "i32")) if number else first
    there = n.Index(at, given[0], index)
    held = n.Index(at, given[1], n.Constant(at, number, "i32"))
    if method == "Store":
        reader.read(n.Assign(at, "", there, held))
        return
    value: n.Expr = there
    if len(given) > 2:
        other = given[3] if len(given) > 3 else held
        value = n.Choice(at, n.Binary(at, "<", index, given[2]), there, other)
    reader.read(n.Assign(at, "", held, value))


def _at_once(reader: Core, node: n.Call, method: str, first: n.Expr, items: int) -> Val | None:
    """Move the run of a thread as one vector."""
    start = reader.read(n.Binary(node.at, "+", node.arguments[0], first))
    held = reader.place(node.arguments[1])
    element = start.kind.to
    if element is None or element.shape or element.record or held is None:
        return None
    vector = replace(element, shape=(str(items),))
    behind = Memory(replace(start, kind=replace(start.kind, to=vector)), vector)
    source, target = (behind, held) if method == "Load" else (held, behind)
    reader.store(target, reader.load(source, node.at), node.at)
    return Val("")
