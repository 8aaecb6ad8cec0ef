"""Divisions that leave no rest where the host launches a kernel with a compile-time flag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from extractors.told_tails import FLAGGED
from kb.evidence import AxisKind, Decision, Lines

MAX_SITES = 12
"""Launches of one kernel of which the tests are looked through."""


def whole_flags(definition: n.Definition, launches: Sequence[LaunchSite]) -> Iterator[Decision]:
    """Of a kernel with compile-time flags, the conditions of its launches that rest on a remainder
    of zero, with where that is asked. Told where the kernel skips its checks by a flag."""
    flags = any(one.dtype == "bool" for one in definition.template)
    lines: set[Lines] = set()
    for site in launches[:MAX_SITES] if flags else ():
        for test in site.tests:
            asked = {
                place(one.at)
                for one in site.behind(test)
                if isinstance(one, n.Binary) and _whole(one) and one.at.path == definition.at.path
            }
            lines |= {place(test.at), *asked} if asked else set()
    if lines:
        yield Decision(
            axis="tail_handling", value=FLAGGED, pattern=FLAGGED, lines=tuple(sorted(lines)),
            kind=AxisKind.DESIGN,
        )  # fmt: skip


def _whole(one: n.Binary) -> bool:
    """`extent % tile == 0`."""
    sides = (one.left, one.right)
    rest = any(isinstance(side, n.Binary) and side.operator == "%" for side in sides)
    none = any(isinstance(side, n.Constant) and side.value == 0 for side in sides)
    return one.operator == "==" and rest and none
