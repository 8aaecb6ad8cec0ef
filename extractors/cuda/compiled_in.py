"""Where the host gives the template arguments of a kernel: what is compiled in."""

from __future__ import annotations

from collections.abc import Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from kb.evidence import AxisKind, Decision

MAX_SITES = 60
"""Launches whose arguments are told; a dispatch of more is told by the kernel alone."""


def compiled_in(definition: n.Definition, sites: Sequence[LaunchSite]) -> tuple[Decision, ...]:
    """The names of a template kernel with arguments, where launches of the kernel's file stand."""
    home = definition.at.path
    named = [one.kernel for one in sites[:MAX_SITES] if one.kernel.arguments]
    lines = {place(name.at) for name in named if name.at.path == home}
    if not definition.template or not lines:
        return ()
    return (
        Decision(
            axis="specialization", value="constexpr", kind=AxisKind.HOST,
            pattern="problem-extents-as-compile-time-constants", lines=tuple(lines),
        ),
    )  # fmt: skip
