"""Launches that the host lets begin before the kernel in front of theirs has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from kb.evidence import AxisKind, Decision, Lines

_ATTRIBUTE = "cudaLaunchAttributeProgrammaticStreamSerialization"
"""The attribute of such launches. Source: CUDA Runtime API 13.0, cudaLaunchAttributeID."""


@dataclass(slots=True)
class Overlap:
    """Where functions of a file set that attribute; each function is looked through once."""

    origins: BlockOrigins
    _known: dict[int, frozenset[Lines]] = field(default_factory=dict)

    def of(self, launches: Sequence[LaunchSite]) -> Iterator[Decision]:
        """The decision of a kernel whose launches stand in such functions."""
        lines: set[Lines] = set()
        for site in launches:
            holder = self.origins.holder(site)
            if holder is not None and (sets := self._sets(holder)):
                lines |= {*sets, place(site.at)}
        if lines:
            yield Decision(
                axis="launch_overlap", value="programmatic dependent launch",
                pattern="wait-for-the-grid-before", lines=tuple(sorted(lines)),
                kind=AxisKind.DESIGN,
            )  # fmt: skip

    def _sets(self, function: n.Definition) -> frozenset[Lines]:
        if id(function) not in self._known:
            self._known[id(function)] = frozenset(
                place(one.at)
                for one in n.inside(function.body)
                if isinstance(one, n.Name) and one.text.rpartition("::")[2] == _ATTRIBUTE
            )
        return self._known[id(function)]
