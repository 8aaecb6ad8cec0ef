"""What functions of the host check by `assert` alone on the way to a launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from kb.evidence import Lines

ASSERT = "assert"
"""Checks nothing where NDEBUG is defined. Source: ISO C, <assert.h>."""

MAX_CALLERS = 2
"""Functions of the file, one calling the other, that lead to a launch."""


def asserted(sites: Sequence[LaunchSite], origins: BlockOrigins) -> tuple[Lines, ...]:
    """The lines of assertions in the functions that launch, and in those of the file that call
    them."""
    found: dict[Lines, None] = {}
    for site in sites:
        holder = origins.holder(site)
        if holder is not None:
            found.update(dict.fromkeys(_inside(holder, origins, MAX_CALLERS)))
    return tuple(sorted(found))


def _inside(function: n.Definition, origins: BlockOrigins, callers: int) -> Iterator[Lines]:
    for one in n.inside(function.body):
        if isinstance(one, n.Call) and isinstance(one.function, n.Name):
            if one.function.text == ASSERT:
                yield place(one.at)
    for caller, _ in origins.callers(function.name) if callers else ():
        if caller is not function:
            yield from _inside(caller, origins, callers - 1)
