"""Launches whose error the code of their file never asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.launchers import LAUNCHERS
from kb.evidence import Lines

MAX_CALLERS = 3
"""Functions of the file, one calling the other, that are looked at for the question."""

_ASKS = re.compile(r"(?i)check|err(?:or)?(?:$|[^a-z])|error|sync|assert|status|safe_?call|ensure")
"""Words in the names of what asks for the error of a launch, or waits for the device and hands its
error on. A function or macro of this kind that is not known is taken to ask."""

_SUCCESS = "cudaSuccess"


def unasked(
    sites: Sequence[LaunchSite], origins: BlockOrigins, methods: frozenset[int]
) -> tuple[tuple[Lines, ...], ...]:
    """The launches after which neither their function nor a caller in the file asks whether they
    began, each with the success that the function returns all the same. Who calls one of the
    `methods`, by their identity, is not known: it may ask."""
    found: dict[tuple[Lines, ...], None] = {}
    for site in sites:
        holder = origins.holder(site)
        if holder is None or not _dropped(site, holder):
            continue
        if not _asked(holder, site.at.line, origins, methods, MAX_CALLERS):
            found.setdefault((place(site.at), *_returned(holder, site.at.line)))
    return tuple(found)


def _dropped(site: LaunchSite, holder: n.Definition) -> bool:
    """Whether a launch is a statement of its own whose result, if it has one, nothing takes."""
    for one in n.inside(holder.body):
        call = one.value if isinstance(one, n.Do) else None
        if isinstance(call, n.Call) and call.at == site.at:
            name = call.function.text if isinstance(call.function, n.Name) else ""
            return bool(call.launch) or name.removeprefix("::") in LAUNCHERS
    return False


def _asked(
    function: n.Definition, line: int, origins: BlockOrigins, methods: frozenset[int], callers: int
) -> bool:
    """Whether anything from a line of a function on asks for an error, or anything around a call
    of the function."""
    if function.owner or function.instance or id(function) in methods:
        return True
    if any(_ASKS.search(word) for word in _words(function, line)):
        return True
    return callers > 0 and any(
        _asked(caller, call.at.line, origins, methods, callers - 1)
        for caller, call in origins.callers(function.name)
        if caller is not function
    )


def _words(function: n.Definition, line: int) -> Iterator[str]:
    """What a function calls and names at a line and after it, and before it in a loop around it;
    text that has no form here as a whole."""
    first = min(
        (one.at.line for one in n.inside(function.body)
         if isinstance(one, n.For | n.While) and one.at.line <= line <= one.at.end_line),
        default=line,
    )  # fmt: skip
    for one in n.inside(function.body):
        if max(one.at.line, one.at.end_line) < first:
            continue
        match one:
            case n.Skipped(what=what) | n.Unread(what=what):
                yield what
            case n.Name(text=text) if text.rpartition("::")[2] != _SUCCESS:
                yield text
            case n.Field(name=name):
                yield name


def _returned(function: n.Definition, line: int) -> Iterator[Lines]:
    """Where a function says after a launch that all went well."""
    for one in n.inside(function.body):
        if isinstance(one, n.Leave) and one.at.line >= line and isinstance(one.value, n.Name):
            if one.value.text.rpartition("::")[2] == _SUCCESS:
                yield place(one.at)
