"""Conversions by a struct that is written for single types, where only the instantiation tells
which: from the open type to what every specialisation converts its own type to, and back."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.conversions import ConversionReader
from extractors.cuda.same_work import work_of
from extractors.cuda.values import Frame, Kind, Named, Val

Signature = tuple[Kind, Kind]
"""What a function takes and gives."""


def conversion(reader: ConversionReader, node: n.Call, function: n.Name) -> Val | None:
    """The value of `Struct<T>::name(x)` with an open type T; None when it is no conversion that
    all specialisations make alike."""
    head, _, last = function.text.rpartition("::")
    if not head or len(node.arguments) != 1:
        return None
    bound = reader.frame.find(head.partition("<")[0])
    owner = bound if isinstance(bound, Kind) else (
        reader.kind(bound.type, bound.frame) if isinstance(bound, Named)
        else reader.kind(function.scope or n.CType(head), reader.frame)
    )  # fmt: skip
    open_ = [one for one in owner.arguments if isinstance(one, Kind)]
    if len(open_) != 1 or not open_[0].dtype.startswith("dtypeof(") or open_[0].shape:
        return None
    if _to_own_type(reader, owner.record, last):
        return reader.cast(reader.read(node.arguments[0]), open_[0], node.at)
    known = _known(reader, owner.record, last)
    fixed = {kind.dtype for own, made in known for pair in made for kind in pair
             if kind.dtype != own.dtype}  # fmt: skip
    several = [(own, made) for own, made in known if own.dtype not in fixed]
    if not several:
        return None
    value = reader.read(node.arguments[0])
    given = replace(value.kind, record="", arguments=())
    results = [
        {_opened(to, own, open_[0]) for by, to in made if _opened(by, own, open_[0]) == given}
        for own, made in several
    ]
    if any(one != results[0] for one in results) or len(results[0]) != 1:
        return None
    return reader.cast(value, next(iter(results[0])), node.at)


def _to_own_type(reader: ConversionReader, record: str, name: str) -> bool:
    """Whether all methods of a name, of every type that a struct is written for, do nothing but
    convert their only argument to that type."""
    found = False
    for one in reader.library.records(record) if record else ():
        methods = [m for m in one.methods if m.name == name]
        if len(one.specialised) != 1 or not isinstance(one.specialised[0], n.CType):
            if methods:
                return False
            continue
        own = reader.kind(one.specialised[0], Frame("file"))
        frame = reader.of_record(one, (own,), reader.frame.depth)
        for method in methods:
            if len(method.parameters) != 1 or reader.kind(method.result, frame) != own:
                return False
            if work_of(method, reader.library):
                return False
        found = found or bool(methods)
    return found


def _known(reader: ConversionReader, record: str, name: str) -> list[tuple[Kind, list[Signature]]]:
    """Types that a struct is written for, each with what its methods of a name convert; none where
    one of them does more."""
    found: list[tuple[Kind, list[Signature]]] = []
    for one in reader.library.records(record) if record else ():
        methods = [m for m in one.methods if m.name == name and len(m.parameters) == 1]
        if len(one.specialised) != 1 or not isinstance(one.specialised[0], n.CType) or not methods:
            continue
        own = reader.kind(one.specialised[0], Frame("file"))
        if any(work_of(m, reader.library) for m in methods) or own.shape or own.dtype == "?":
            return []
        frame = reader.of_record(one, (own,), reader.frame.depth)
        signatures = [
            (reader.kind(m.parameters[0].type, frame), reader.kind(m.result, frame))
            for m in methods
        ]
        found.append((own, signatures))
    return found


def _opened(kind: Kind, own: Kind, open_: Kind) -> Kind:
    return replace(kind, dtype=open_.dtype) if kind.dtype == own.dtype else kind
