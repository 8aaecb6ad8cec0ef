"""What a launch gives the parameters of a kernel, and the fields of structs among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.launch_site import LaunchSite, fields
from extractors.cuda.library import Library

MAX_DEPTH = 3
"""Structs in structs that are looked into."""

Pair = tuple[n.Variable, n.Expr]
"""A parameter, or a field of one as `params.x`, and what it is given."""


def given(definition: n.Definition, site: LaunchSite, library: Library) -> Iterator[Pair]:
    """The parameters of a kernel with what a launch gives them, and behind a struct that the host
    fills, its fields, as if they were handed over by themselves."""
    for pair in zip(definition.parameters, site.arguments, strict=False):
        yield from _apart(pair, site, library, 0)


def _apart(pair: Pair, site: LaunchSite, library: Library, depth: int) -> Iterator[Pair]:
    struct, held = pair
    yield pair
    if struct.type.pointers or not isinstance(held, n.Name) or depth >= MAX_DEPTH:
        return
    known = library.records(struct.type.name)
    kinds = {one.name: one.type for one in known[0].fields} if len(known) == 1 else {}
    for name, value in fields(held, site.names):
        if name in kinds and isinstance(value, n.Expr):
            part = replace(struct, name=f"{struct.name}.{name}", type=kinds[name])
            yield from _apart((part, value), site, library, depth + 1)
