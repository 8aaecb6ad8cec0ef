"""CUB's loads and stores of a block: what every thread moves of its run of elements."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.core import Core
from extractors.cuda.values import Kind, Memory, Slot, Val

MAX_ITEMS = 32
"""Elements of a thread that are written down one by one."""

_TURN, _COUNT = "element of the run", "elements of the run"
"""Names of two variables; no name of a source has a blank in it."""

_MOVES = (("BlockLoad", "Load"), ("BlockStore", "Store"))
_VECTORS = frozenset({"BLOCK_LOAD_VECTORIZE", "BLOCK_STORE_VECTORIZE"})
"""Algorithms that move the run of a thread as vectors, where all of it is there. Source: CUB,
BlockLoad and BlockStore."""


def is_move(kind: Kind, method: str) -> bool:
    """Whether a method of a type moves the run of every thread of a block."""
    return (kind.record.rpartition("::")[2], method) in _MOVES


def block_move(
    reader: Core, node: n.Call, method: str, written: n.CType, kind: Kind
) -> Val | None:  # fmt: skip
    """`BlockLoad<T, threads, items, algorithm>(room).Load(from, to[, valid[, other]])`: element by
    element under the count that is valid, or the whole run at once; None for what is no such
    move, or of a number of elements that is not known when the kernel is compiled."""
    if not is_move(kind, method):
        return None
    count = kind.arguments[2] if len(kind.arguments) > 2 else None
    given = node.arguments
    if not isinstance(count, Val) or not 2 <= len(given) <= 4:
        return None
    items = count.const
    held = _held(reader, given[1])
    node = replace(node, arguments=(given[0], held, *given[2:]))
    if items is None and count.static:
        return _each(reader, node, method, count)
    if not isinstance(items, int) or not 0 < items <= MAX_ITEMS:
        return None
    algorithm = written.arguments[3] if len(written.arguments) > 3 else None
    name = algorithm.name if isinstance(algorithm, n.CType) else getattr(algorithm, "text", "")
    first = _run(node.at, n.Constant(node.at, items, "i32"))
    if name.rpartition("::")[2] in _VECTORS and len(given) == 2:
        return _at_once(reader, node, method, first, items)
    for number in range(items):
        reader.statement(_one(node, method, first, n.Constant(node.at, number, "i32")))
    return Val("")


def _held(reader: Core, node: n.Expr) -> n.Expr:
    """The elements of a thread, as something with an index: `*reinterpret_cast<T (*)[k]>(&a[i])`
    is the array a from the i-th element on, as is `reinterpret_cast<T (&)[k]>(a)` from the first,
    either seen as elements of type T."""
    cast = node.operand if isinstance(node, n.Unary) and node.operator == "*" else node
    if not isinstance(cast, n.Cast) or not cast.type.extents:
        return node
    array: n.Expr = cast.operand
    start: n.Expr | None = None
    if isinstance(array, n.Unary) and array.operator == "&":
        array = array.operand
        if isinstance(array, n.Index):
            start, array = array.index, array.operand
    where = reader.place(array)
    own = where.kind if isinstance(where, Slot) else None
    type_ = replace(cast.type, extents=(), reference=False, pointers=0)
    if own is None or not own.shape:
        return node
    if reader.kind(type_, reader.frame) != replace(own, shape=()):
        if start is not None:
            size = n.SizeOf(node.at, None, n.Index(node.at, array, n.Constant(node.at, 0, "i32")))
            start = n.Binary(node.at, "*", start, size)
            start = n.Binary(node.at, "/", start, n.SizeOf(node.at, type_))
        array = n.Cast(node.at, replace(type_, pointers=1), array, "reinterpret")
    return array if start is None else n.Binary(node.at, "+", array, start)


def _each(reader: Core, node: n.Call, method: str, count: Val) -> Val:
    """Move a run of as many elements as only the instantiation tells."""
    at = node.at
    with reader.block():
        reader.bind(_COUNT, count)
        turn, zero = n.Name(at, _TURN), n.Constant(at, 0, "i32")
        moved = _one(node, method, _run(at, n.Name(at, _COUNT)), turn)
        before = n.Variable(at, _TURN, n.CType("int"), zero)
        after = n.Assign(at, "+", turn, n.Constant(at, 1, "i32"))
        more = n.Binary(at, "<", turn, n.Name(at, _COUNT))
        reader.statement(n.For(at, (before,), more, after, n.Block(at, (moved,)), 0))
    return Val("")


def _run(at: n.Place, items: n.Expr) -> n.Expr:
    """The place of a thread's first element."""
    thread = n.Field(at, n.Name(at, "threadIdx"), "x")
    single = isinstance(items, n.Constant) and items.value == 1
    return thread if single else n.Binary(at, "*", thread, items)


def _one(node: n.Call, method: str, first: n.Expr, number: n.Expr) -> n.Stmt:
    """Move one element of the run."""
    at, given = node.at, node.arguments
    start = isinstance(number, n.Constant) and not number.value
    index = first if start else n.Binary(at, "+", first, number)
    there = n.Index(at, given[0], index)
    held = _at(at, given[1], number)
    valid = n.Binary(at, "<", index, given[2]) if len(given) > 2 else None
    if method == "Store":
        kept = n.Do(at, n.Assign(at, "", there, held))
        if valid is None:
            return kept
        return n.If(at, (), valid, n.Block(at, (kept,)), n.Block(at, ()))
    value: n.Expr = there
    if valid is not None:
        value = n.Choice(at, valid, there, given[3] if len(given) > 3 else held)
    return n.Do(at, n.Assign(at, "", held, value))


def _at(at: n.Place, held: n.Expr, number: n.Expr) -> n.Expr:
    if isinstance(held, n.Binary):
        start = isinstance(number, n.Constant) and not number.value
        return n.Index(
            at, held.left, held.right if start else n.Binary(at, "+", held.right, number)
        )
    return n.Index(at, held, number)


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
