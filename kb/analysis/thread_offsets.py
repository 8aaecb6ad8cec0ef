"""Products in the offsets of one thread that its types keep to 32 bits: divided or widened only
afterwards, or of a number that was loaded."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.analysis.symbolic import AtomKind, Expr, of
from kb.analysis.widths import Widths, below_short, known_at_launch, placed
from kb.ir import TypeKind
from kb.ops import OpKind

_SHORT, _WIDE = ("i32", "u32"), ("i64", "u64")
_SUMS = COPIES | {OpKind.ADD, OpKind.SUB, OpKind.ADVANCE, OpKind.POINTER_CAST}
_BRANCHES = frozenset({OpKind.IF, OpKind.IF_EXPRESSION, OpKind.FOR, OpKind.WHILE})
_DIVIDED = frozenset({OpKind.FLOOR_DIV, OpKind.SHIFT_RIGHT})
MAX_VALUES = 400
"""Values that one offset is followed through."""


def narrow_products(facts: Facts, widths: Widths, access: Access) -> list[Node]:
    """Products of 32 bits in the offset of an access of a thread whose one side counts blocks or
    rows, or was loaded, and whose other side is a size that the launch gives: of all of an offset
    those of the most sizes, for the others are places within a row."""
    address = access.node.op.operand("pointer")
    if not facts.of_threads or address is None or _shared(access):
        return []
    found = list(_products(facts, widths, address))
    most = max((_sizes(facts, node) for node in found), default=0)
    return [node for node in found if _sizes(facts, node) == most]


def _shared(access: Access) -> bool:
    return access.node.op.attribute("space") == "shared"


def _sizes(facts: Facts, node: Node) -> int:
    """How many sizes that the launch gives are multiplied in a product."""
    return max(
        (sum(known_at_launch(facts, of(atom)) for atom in factors)
         for factors, _ in facts.values.expr(node.result).terms),
        default=0,
    )  # fmt: skip


def _products(facts: Facts, widths: Widths, address: str) -> Iterator[Node]:
    pending = [address]
    seen = {address}
    found: list[Node] = []
    for value in pending:
        node = facts.graph.producer(value)
        if len(seen) > MAX_VALUES:
            continue
        if node is None or node.op.kind in _BRANCHES:
            if not _pointer(facts, value):
                continue
            new = [feed for feed in facts.graph.feeds(value) if feed not in seen]
            seen.update(new)
            pending += new
            continue
        if facts.types.dtype(value) in _WIDE and _row(facts, value):
            return  # a row of 64 bits: the rest lies within it
        if node.op.kind == OpKind.MUL and _narrow(facts, node.result):
            short = all(_short(facts, one) for one in node.op.inputs[:2])
            if short and _grows(facts, node) and not below_short(facts, widths, node.result):
                found.append(node)
                continue
        for feed in _followed(facts, node):
            if feed not in seen:
                seen.add(feed)
                pending.append(feed)
    yield from found


def _pointer(facts: Facts, value: str) -> bool:
    """Whether what a branch or a loop hands on is a pointer: a number that it hands on may be held
    below a size."""
    made, held = facts.graph.producer(value), facts.graph.arguments.get(value)
    rows = made.op.results if made is not None else ()
    if held is not None:
        rows = held[0].op.regions[held[1]].arguments
    types = [row.type for row in rows if row.name == value]
    return any(one is not None and one.kind is TypeKind.POINTER for one in types)


def _narrow(facts: Facts, value: str) -> bool:
    return facts.types.dtype(value) in _SHORT


def _short(facts: Facts, value: str) -> bool:
    """Whether a factor surely has no more than 32 bits: by its type, or as a number or parameter
    that is known when the kernel is compiled."""
    known = facts.values.compile_time(facts.values.expr(value))
    return facts.types.dtype(value) in (*_SHORT, "u16", "i16", "u8", "i8") or known


def _followed(facts: Facts, node: Node) -> tuple[str, ...]:
    """What an offset is made of, step by step."""
    kind, inputs = node.op.kind, node.op.inputs
    if kind in _SUMS:
        return inputs
    if kind == OpKind.CAST:
        return inputs[:1]
    if kind in _DIVIDED and facts.values.compile_time(facts.values.expr(inputs[1])):
        return inputs[:1]
    if kind == OpKind.MUL and _narrow(facts, node.result):
        return tuple(inputs[:2])
    return ()


def _row(facts: Facts, value: str) -> bool:
    """Whether a number of 64 bits is a product, or a sum with one, that was made in 64 bits."""
    pending, seen = [value], {value}
    for one in pending:
        node = facts.graph.producer(one)
        if node is None or facts.types.dtype(one) not in _WIDE or len(seen) > MAX_VALUES:
            continue
        if node.op.kind == OpKind.MUL:
            return True
        new = [x for x in node.op.inputs if node.op.kind in _SUMS and x not in seen]
        seen.update(new)
        pending += new
    return False


def _grows(facts: Facts, product: Node) -> bool:
    left, right = (facts.values.expr(v) for v in product.op.inputs[:2])
    return any(
        (placed(facts, one) or _loaded(one)) and _size(facts, other) and not _undone(one, other)
        for one, other in ((left, right), (right, left))
    )


def _loaded(expr: Expr) -> bool:
    """Whether a number that was loaded is added up as it is: a row, a page, the start of one."""
    return any(len(f) == 1 and f[0].kind is AtomKind.LOADED for f, _ in expr.terms)


def _size(facts: Facts, expr: Expr) -> bool:
    """Whether a number is a size that the launch gives, perhaps divided by one that is known: not
    a tile."""
    return known_at_launch(facts, expr) or any(
        atom.kind is AtomKind.FLOOR_DIV and known_at_launch(facts, atom.args[0])
        for atom in expr.top()
    )


def _undone(quotient: Expr, factor: Expr) -> bool:
    """Whether a quotient is multiplied with what it was divided by, or with a part of that."""
    parts = {atom.text for atom in factor.atoms()}
    return any(
        atom.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD)
        and bool(parts & {one.text for one in atom.args[1].atoms()})
        for factors, _ in quotient.terms
        for atom in factors
    )
