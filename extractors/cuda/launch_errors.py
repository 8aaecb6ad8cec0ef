"""Launches whose error the code of their file never asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class LaunchErrors:
    """Who asks for the errors of the launches of a file. Who calls one of the `methods`, by their
    identity, is not known: it may ask."""

    origins: BlockOrigins
    methods: frozenset[int]
    _alone: dict[int, dict[n.Place, str]] = field(default_factory=dict)

    def unasked(self, sites: Sequence[LaunchSite]) -> tuple[tuple[Lines, ...], ...]:
        """The launches after which neither their function nor a caller in the file asks whether
        they began, each with the success that the function returns all the same."""
        found: dict[tuple[Lines, ...], None] = {}
        for site in sites:
            holder = self.origins.holder(site)
            if holder is None or not self._dropped(site, holder):
                continue
            if not _asked(holder, site.at.line, self.origins, self.methods, MAX_CALLERS):
                found.setdefault((place(site.at), *_returned(holder, site.at.line)))
        return tuple(found)

    def _dropped(self, site: LaunchSite, holder: n.Definition) -> bool:
        """Whether a launch is a statement of its own whose result, if it has one, nothing takes."""
        if id(holder) not in self._alone:
            self._alone[id(holder)] = _statements(holder)
        name = self._alone[id(holder)].get(site.at)
        return name is not None and (not name or name.removeprefix("::") in LAUNCHERS)


def _statements(holder: n.Definition) -> dict[n.Place, str]:
    """The calls that are statements of their own: where, and the name of what is called, empty for
    a launch in angle brackets."""
    found: dict[n.Place, str] = {}
    for one in n.inside(holder.body):
        call = one.value if isinstance(one, n.Do) else None
        if isinstance(call, n.Call):
            name = call.function.text if isinstance(call.function, n.Name) else "?"
            found.setdefault(call.at, "" if call.launch else name)
    return found


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
