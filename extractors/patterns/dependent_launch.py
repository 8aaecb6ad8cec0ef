"""Whether a kernel begins before the one in front of it has ended."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

_WAITS = vary(
    ADD_POINTER, ("    inside = at < n\n", "    inside = at < n\n    tl.extra.cuda.gdc_wait()\n")
)
_WAITS_THREADS = vary(
    ADD_THREADS, ("    if (at < n)", '    asm volatile("griddepcontrol.wait;");\n    if (at < n)')
)


class DependentLaunch(Pattern):
    """The kernel waits for the grid before it, or lets the next one start."""

    name = "wait-for-the-grid-before"
    axis = "launch_overlap"
    source = "NVIDIA, CUDA C++ Programming Guide, programmatic dependent launch"
    matches = (
        Case(_WAITS, "programmatic dependent launch"),
        Case(_WAITS_THREADS, "programmatic dependent launch"),
    )
    near_misses = (
        NearMiss(ADD_POINTER, why="the kernel knows no other"),
        NearMiss(ADD_THREADS, why="the kernel knows no other"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = facts.threads.of(OpKind.GRID_WAIT, OpKind.GRID_LAUNCH)
        if found:
            yield self.decide(facts, "programmatic dependent launch", found)
