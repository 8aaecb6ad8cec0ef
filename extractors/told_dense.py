"""Arrays that a kernel of tiles takes to be dense: neither it nor the host says how they lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.detect import Detection
from extractors.host.facts import HostFacts
from kb.analysis.accesses import Access, Mode
from kb.analysis.symbolic import AtomKind
from kb.evidence import AxisKind, Decision

CONTRACT = "layout_contract"
GRANTED = "contiguous arrays taken for granted"
WITHOUT = "arrays-of-tiles-without-strides"


def taken_for_granted(
    detection: Detection, host: HostFacts, told: Sequence[Decision]
) -> Iterator[Decision]:
    """Elements of arguments that lanes are counted to, where no stride is handed over and nothing
    else is told of the layout; with the launches."""
    facts = detection.facts
    if facts.of_threads or not host.launches or any(d.axis == CONTRACT for d in told):
        return
    if any("stride" in one.expression for launch in host.launches for one in launch.bindings):
        return
    counted = [access for access in facts.accesses if _counted(access)]
    if counted:
        lines = {access.node.lines for access in counted}
        yield Decision(
            axis=CONTRACT,
            value=GRANTED,
            pattern=WITHOUT,
            lines=tuple(sorted({*lines, *(launch.lines for launch in host.launches)})),
            kind=AxisKind.HOST,
            subject=", ".join(dict.fromkeys(one.array for one in counted if one.array)),
        )


def _counted(access: Access) -> bool:
    """Whether lanes of the tile say where elements of an argument are, one after the other."""
    if access.mode is not Mode.POINTER or access.array is None:
        return False
    return any(index.has(AtomKind.LANE) for index in access.index)
