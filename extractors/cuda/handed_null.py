"""Pointers that the host hands to a kernel as null, in some launches or for some calls."""

from __future__ import annotations

from collections.abc import Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import Names, place
from extractors.cuda.given import given
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.library import Library
from extractors.told_optional import NULL, OPTIONAL
from kb.evidence import AxisKind, Decision, Lines

MAX_SITES = 60
"""Launches that are looked at."""

MAX_DEPTH = 4
"""Names behind names that are followed."""


def handed_null(
    definition: n.Definition, sites: Sequence[LaunchSite], library: Library
) -> tuple[Decision, ...]:
    """For each parameter that a launch of the kernel's file gives a null pointer, or one or null,
    where it does."""
    found: dict[str, dict[Lines, None]] = {}
    for site in sites[:MAX_SITES]:
        for parameter, value in given(definition, site, library):
            at = _null(value, site.names) if parameter.type.pointers else None
            if at is not None and at.path == definition.at.path:
                found.setdefault(parameter.name, {})[place(at)] = None
    return tuple(
        Decision(
            axis=OPTIONAL, value="None argument", kind=AxisKind.HOST, pattern=NULL,
            lines=tuple(lines), subject=name,
        )
        for name, lines in found.items()
    )  # fmt: skip


def _null(value: n.Expr, names: Names, depth: int = 0) -> n.Place | None:
    """Where a pointer is null, or one side of a choice is; None elsewhere."""
    match value:
        case n.Constant(value=None, dtype="null"):
            return value.at
        case n.Choice(then=then, other=other):
            sides = (then, other)
            return value.at if any(_null(one, names, MAX_DEPTH) for one in sides) else None
        case n.Cast(operand=operand):
            return _null(operand, names, depth)
        case n.Name(text=text) if depth < MAX_DEPTH:
            made = names.get(text)
            made = made.value if isinstance(made, n.Variable) else made
            return _null(made, names, depth + 1) if isinstance(made, n.Expr) else None
    return None
