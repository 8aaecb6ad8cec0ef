"""Packs of the numbers from zero on: `std::integer_sequence<int, I...>` as a parameter, and folds
over such a pack as the loop that they are where nothing tells how many numbers there are."""

from __future__ import annotations

from extractors.cuda import nodes as n
from extractors.cuda.pack_names import count_of
from extractors.cuda.packs import named, renamed
from extractors.cuda.values import Frame, Val

_LISTS = frozenset({"integer_sequence", "index_sequence"})
_MAKERS = frozenset({"make_integer_sequence", "make_index_sequence"})
"""Types of the standard library. Source: ISO C++, header utility."""

_UNITS = {"&&": True, "||": False}
"""What a fold of nothing is."""


def pack_of(written: n.CType) -> str:
    """The pack of the numbers that a type lists; empty for other types."""
    if written.name.rpartition("::")[2] not in _LISTS or not written.arguments:
        return ""
    last = written.arguments[-1]
    inner = last.inner[0] if isinstance(last, n.Unread) and last.inner else None
    return inner.text if isinstance(inner, n.Name) else ""


def length(value: n.Expr) -> n.Expr | None:
    """How many numbers a sequence has that is made where it is used."""
    made: n.CType | None = None
    if isinstance(value, n.Braces) and not value.items:
        made = value.type
    elif isinstance(value, n.Call) and isinstance(value.function, n.Name) and not value.arguments:
        made = n.CType(value.function.text, value.function.arguments)
    if made is None or made.name.rpartition("::")[2] not in _MAKERS or not made.arguments:
        return None
    last = made.arguments[-1]
    return n.Name(value.at, last.name, last.arguments) if isinstance(last, n.CType) else last


def as_loop(node: n.Fold, frame: Frame) -> tuple[tuple[n.Stmt, ...], n.Name | None] | None:
    """A fold over the numbers of one sequence of unknown length, by commas or of truths: the loop,
    and what it leaves. None for any other fold."""
    names = named(node.operand)
    packs = {one: count_of(one) for one in names if _is_open(frame.find(count_of(one)))}
    if len(packs) != 1 or node.start is not None or node.operator not in (",", *_UNITS):
        return None
    (pack, count), at = next(iter(packs.items())), node.at
    index, whole = n.Name(at, f"{pack}__at"), n.Name(at, f"{pack}__all")
    each = renamed(node.operand, {pack: index.text})
    before: tuple[n.Stmt, ...] = ()
    if node.operator in _UNITS:
        start = n.Constant(at, _UNITS[node.operator], "i1")
        before = (n.Variable(at, whole.text, n.CType("bool"), start),)
        each = n.Assign(at, "", whole, n.Binary(at, node.operator, whole, each))
    first = n.Variable(at, index.text, n.CType("int"), n.Constant(at, 0, "i32"))
    step = n.Assign(at, "+", index, n.Constant(at, 1, "i32"))
    body = n.Block(at, (n.Do(at, each),))
    bound = n.Binary(at, "<", index, n.Name(at, count))
    loop = n.For(at, (first,), bound, step, body, 0)
    return (*before, loop), whole if before else None


def _is_open(bound: object) -> bool:
    return isinstance(bound, Val) and bound.const is None and bool(bound.name)
