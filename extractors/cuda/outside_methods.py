"""Methods that are declared in a struct and defined outside of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from extractors.cuda import nodes as n

_OUTSIDE = re.compile(r"\b(\w+)\s*(?:<[^;{}()]*>)?\s*::\s*\w+\s*\(")


def defined_outside(text: str) -> frozenset[str]:
    """Names of structs of which a text may define methods outside of them."""
    return frozenset(_OUTSIDE.findall(text))


def with_methods(record: n.Record, units: Iterable[n.Unit]) -> n.Record:
    """A struct with the methods that files define outside of it; those that it defines itself, and
    specialisations, stay as they are."""
    if record.specialised:
        return record
    known = {one.name for one in record.methods}
    more = [one for unit in units for one in _outside(record, unit) if one.name not in known]
    return replace(record, methods=(*record.methods, *more)) if more else record


def _outside(record: n.Record, unit: n.Unit) -> Iterator[n.Definition]:
    own = [one.name for one in record.template]
    for many in unit.functions.values():
        for one in many:
            names = [p.name for p in one.template[: len(own)]]
            if one.owner.rpartition("::")[2] != record.name or names != own:
                continue
            if _arguments(one.instance) == own:
                rest = one.template[len(own) :]
                yield replace(one, template=rest, owner="", instance="", space="")


def _arguments(instance: str) -> list[str]:
    """The template arguments of a struct as they are written before a method's name."""
    inside = instance.partition("<")[2].rpartition(">")[0]
    return [part.strip().removesuffix("...") for part in inside.split(",")] if inside else []
