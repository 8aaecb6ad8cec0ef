"""Launches that the host lets begin before the kernel in front of theirs has ended, or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.launchers import serialised
from kb.evidence import AxisKind, Decision, Lines
from kb.ir import Kernel, kernel_ops
from kb.ops import OpKind

_ASKS = frozenset({OpKind.GRID_WAIT, OpKind.GRID_LAUNCH})


@dataclass(slots=True)
class Overlap:
    """Where functions of a file set the attribute for that; each function is looked through
    once."""

    origins: BlockOrigins
    _known: dict[int, frozenset[Lines]] = field(default_factory=dict)

    def of(self, launches: Sequence[LaunchSite], kernel: Kernel) -> Iterator[Decision]:
        """The decision of a kernel whose launches stand in such functions; or whose launches can
        all be given no attribute, so that each waits for what the stream had before."""
        lines: set[Lines] = set()
        for site in launches:
            holder = self.origins.holder(site)
            if holder is not None and (sets := self._sets(holder)):
                lines |= {*sets, place(site.at)}
        if lines:
            yield _decision("programmatic dependent launch", "wait-for-the-grid-before", lines)
        elif launches and all(one.plain for one in launches):
            if not any(op.kind in _ASKS for op in kernel_ops(kernel)):
                lines = {place(one.at) for one in launches}
                yield _decision("none", "launched-in-the-order-of-the-stream", lines)

    def _sets(self, function: n.Definition) -> frozenset[Lines]:
        if id(function) not in self._known:
            found = frozenset(place(one.at) for one in serialised(function))
            self._known[id(function)] = found
        return self._known[id(function)]


def _decision(value: str, pattern: str, lines: set[Lines]) -> Decision:
    return Decision(
        axis="launch_overlap", value=value, pattern=pattern, lines=tuple(sorted(lines)),
        kind=AxisKind.DESIGN,
    )  # fmt: skip
