"""What functions of the host check by `assert` alone on the way to a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from kb.evidence import Lines

ASSERT = "assert"
"""Checks nothing where NDEBUG is defined. Source: ISO C, <assert.h>."""

MAX_CALLERS = 2
"""Functions of the file, one calling the other, that lead to a launch."""


@dataclass(slots=True)
class Assertions:
    """The assertions of the functions of a file, each function looked at once."""

    origins: BlockOrigins
    _own: dict[int, tuple[tuple[Lines, bool], ...]] = field(default_factory=dict)

    def before(self, sites: Sequence[LaunchSite]) -> tuple[Lines, ...]:
        """The lines of assertions that stand before a launch, or before a call that leads to it,
        and of those beside it that never hold: what is not launched for."""
        ways = [(f, one.at.line, 0) for one in sites if (f := self.origins.holder(one)) is not None]
        seen = {(id(function), line) for function, line, _ in ways}
        for function, _, callers in ways:
            further = self.origins.callers(function.name) if callers < MAX_CALLERS else ()
            for caller, call in further:
                if (id(caller), call.at.line) not in seen:
                    seen.add((id(caller), call.at.line))
                    ways.append((caller, call.at.line, callers + 1))
        asserted = ((one, line) for function, line, _ in ways for one in self._of(function))
        return tuple(sorted({at for (at, never), line in asserted if never or at[0] < line}))

    def _of(self, function: n.Definition) -> tuple[tuple[Lines, bool], ...]:
        """The assertions of a function, and whether each never holds."""
        if id(function) not in self._own:
            calls = (one for one in n.inside(function.body) if isinstance(one, n.Call))
            self._own[id(function)] = tuple(
                (place(one.at), any(_false(given) for given in one.arguments))
                for one in calls
                if isinstance(one.function, n.Name) and one.function.text == ASSERT
            )
        return self._own[id(function)]


def _false(node: n.Expr) -> bool:
    """`false`, `0`, and either with a text behind `&&`."""
    if isinstance(node, n.Binary) and node.operator == "&&":
        return _false(node.left)
    return isinstance(node, n.Constant) and not node.value
