"""Structs with the members of their bases, and specialisations that fit template arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from extractors.cuda import nodes as n

MAX_BASES = 8
"""Bases of one struct, one above the other, whose members it gets."""

_TREES = (n.Node, n.CType, n.Definition)

Find = Callable[[str], Sequence[n.Record]]
"""The definitions of a struct by name."""


def with_bases(record: n.Record, find: Find, depth: int = 0) -> n.Record:
    """A struct with the members of its bases before its own, which hide those of the same name.
    It stays open where a base is not known."""
    if not record.bases:
        return record
    whole = True
    inherited = n.Record(record.name, record.at)
    for base in record.bases:
        found = _definition(base, find, record)
        if found is None or depth >= MAX_BASES:
            whole = False
            continue
        inherited = _joined(inherited, _given(with_bases(found, find, depth + 1), base))
    joined = _joined(inherited, record)
    return replace(
        record, fields=joined.fields, methods=joined.methods, aliases=joined.aliases,
        bases=() if whole else record.bases, open=record.open or not whole,
    )  # fmt: skip


def _definition(base: n.CType, find: Find, record: n.Record) -> n.Record | None:
    """The definition of a base, by what its arguments say without their values."""
    several = [one for one in find(base.name) if one.at != record.at]
    fitting = [one for one in several if one.specialised and _stands(one, base)]
    closest = max(fitting, key=_fixed, default=None)
    general = [one for one in several if not one.specialised]
    return closest or (general[0] if general else None)


def _stands(record: n.Record, base: n.CType) -> bool:
    own = {one.name for one in record.template}
    if len(record.specialised) != len(base.arguments):
        return False
    return all(
        _named(one) in own or (_plain(one) is not None and _plain(one) == _plain(given))
        for one, given in zip(record.specialised, base.arguments, strict=True)
    )


def _fixed(record: n.Record) -> int:
    own = {one.name for one in record.template}
    return sum(_named(one) not in own for one in record.specialised)


def _named(one: n.CType | n.Expr) -> str:
    if isinstance(one, n.CType):
        return one.name if not one.pointers and not one.member else ""
    return one.text if isinstance(one, n.Name) else ""


def _plain(one: n.CType | n.Expr) -> object:
    return ("value", one.value) if isinstance(one, n.Constant) else _named(one) or None


def _given(record: n.Record, base: n.CType) -> n.Record:
    """A base in which the arguments stand for its template parameters."""
    pattern = record.specialised or tuple(n.CType(one.name) for one in record.template)
    own = {one.name for one in record.template}
    names = {
        _named(one): given
        for one, given in zip(pattern, base.arguments, strict=False)
        if _named(one) in own and _named(one) != _plain(given)
    }
    for one in record.template[len(base.arguments) :]:
        if one.default is not None and not record.specialised:
            names[one.name] = _put(one.default, names)
    if not names:
        return record
    return replace(
        record, fields=_put(record.fields, names), methods=_put(record.methods, names),
        aliases=_put(record.aliases, names),
    )  # fmt: skip


def _put(node: Any, names: Mapping[str, n.CType | n.Expr]) -> Any:
    """A tree in which names stand for types and values."""
    if isinstance(node, tuple):
        return tuple(_put(one, names) for one in node)
    if isinstance(node, n.CType) and node.name in names:
        given = names[node.name]
        if isinstance(given, n.CType) and not node.arguments:
            return replace(
                given, pointers=given.pointers + node.pointers, const=given.const or node.const,
                reference=given.reference or node.reference, member=node.member or given.member,
                extents=_put(node.extents, names), restrict=node.restrict, volatile=node.volatile,
            )  # fmt: skip
        return given if not isinstance(given, n.CType) and node == n.CType(node.name) else node
    if isinstance(node, n.Name) and node.text in names and not node.arguments:
        given = names[node.text]
        if isinstance(given, n.CType):
            return replace(node, text=given.name, arguments=given.arguments)
        return given
    if not isinstance(node, _TREES):
        return node
    changed = {}
    for one in fields(node):
        before = getattr(node, one.name)
        if isinstance(before, (tuple, *_TREES)):
            after = _put(before, names)
            if after is not before and after != before:
                changed[one.name] = after
    return replace(node, **changed) if changed else node


def _joined(first: n.Record, second: n.Record) -> n.Record:
    """Members of two structs; those of the second hide those of the first with the same name."""
    taken = {one.name for one in second.fields} | {one.name for one in second.methods}
    taken |= {one.name for one in second.aliases}
    made = {second.name, first.name}
    return replace(
        second,
        fields=(*(f for f in first.fields if f.name not in taken), *second.fields),
        methods=(*(m for m in first.methods if m.name not in taken | made), *second.methods),
        aliases=(*(a for a in first.aliases if a.name not in taken), *second.aliases),
        open=first.open or second.open,
    )
