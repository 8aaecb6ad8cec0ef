"""Numbers that structs hold as constants, for host code that names them."""

from __future__ import annotations

from collections.abc import Mapping

from extractors.cuda import nodes as n
from extractors.cuda.folds import fold
from extractors.cuda.library import Library

MAX_STEPS = 8
"""Types behind types, and constants behind constants."""


def struct_number(name: n.Name, types: Mapping[str, n.Name], library: Library) -> n.Constant | None:
    """`Struct::constant` as the number that it is, through the names that host code gives the
    struct, with the place of the template argument that decides, or else of the name. None where
    an argument that is no number decides."""
    head, _, member = name.text.rpartition("::")
    owner: n.CType | n.Name = name.scope or n.CType(head)
    for _ in range(MAX_STEPS):
        text = owner.name if isinstance(owner, n.CType) else owner.text
        alias = library.alias(text)
        held = types.get(text) or (alias.type if alias is not None else None)
        if held is None or held == owner or owner.arguments:
            break
        owner = held
    text = owner.name if isinstance(owner, n.CType) else owner.text
    records = library.records(text) if head else []
    if len(records) != 1 or records[0].specialised:
        return None
    deciding: list[n.Place] = []
    value = _member(member, (records[0], owner.arguments, deciding), 0)
    here = [at for at in deciding if at.path == name.at.path and at.line]
    return n.Constant(here[0] if here else name.at, value, "i32") if value is not None else None


Meant = tuple[n.Record, tuple[n.CType | n.Expr, ...], list[n.Place]]
"""A struct, its template arguments, and where those stand that were asked for."""


def _member(member: str, meant: Meant, depth: int) -> int | None:
    """The number of a constant of a struct with such template arguments."""
    record, given, deciding = meant
    own = [f for f in (*record.fields, *record.around) if f.name == member]
    for one in own:
        if isinstance(one, n.Variable) and one.value is not None and "static" in one.storage:
            return _worked_out(one.value, meant, depth + 1)
    for place, parameter in enumerate(record.template):
        if parameter.name == member:
            value = given[place] if place < len(given) else parameter.default
            number = value.value if isinstance(value, n.Constant) else None
            if isinstance(value, n.Constant) and place < len(given):
                deciding.append(value.at)
            return int(number) if isinstance(number, int) else None
    return None


def _worked_out(node: n.Expr, meant: Meant, depth: int) -> int | None:
    while isinstance(node, n.Cast):
        node = node.operand
    match node:
        case n.Constant(value=int() as value):
            return int(value)
        case n.Name(text=text) if depth < MAX_STEPS:
            return _member(text, meant, depth)
        case n.Binary(operator=operator, left=left, right=right) if depth <= MAX_STEPS:
            sides = (_worked_out(side, meant, depth + 1) for side in (left, right))
            return fold(operator, *sides)
    return None
