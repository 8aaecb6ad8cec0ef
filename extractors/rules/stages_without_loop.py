"""A launch asks for pipeline stages of a kernel that has no loop to pipeline."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import ROWS_POINTER
from extractors.rules.dead_tuning_axis import STAGES, pipelines
from kb.evidence import Finding, Severity

_STAGED = (
    ROWS_POINTER
    + """
def run(x):
    out = torch.empty_like(x)
    rows[(x.shape[0],)](x, out, x.shape[1], 1024, num_stages=4)
    return out
"""
)


class StagesWithoutLoop(Rule):
    """Every launch gives a number of stages above one, and no loop of the kernel loads anything
    that stages could overlap."""

    name = "stages-without-loop"
    dialects = ("triton",)
    matches = (
        Case(_STAGED, "`num_stages`"),
        Case(
            vary(_STAGED, ("1024, num_stages=4", "1024, num_stages=4 if x.shape[0] > 8 else 2")),
            "`num_stages`",
        ),
    )
    near_misses = (
        NearMiss(vary(_STAGED, ("num_stages=4", "num_stages=1")), why="one stage is no pipeline"),
        NearMiss(vary(_STAGED, (", num_stages=4", "")), why="the launch says nothing of stages"),
        NearMiss(
            vary(
                _STAGED,
                ("    tl.store(out", "    for i in range(n):\n        tl.store(out"),
                ("tl.load(x + at,", "tl.load(x + at + i,"),
            ),
            why="a loop loads: its loads are overlapped",
        ),
    )
    seen = (Seen("liger-kernel", "liger_kernel/ops/llama4_rope.py", "_llama4_rope_kernel", 154),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if material is None or not material.launches:
            return
        given = [dict(launch.kernel.hints).get(STAGES) for launch in material.launches]
        if any(value is None or value in (0, 1) for value in given) or pipelines(subject):
            return
        places = {
            line for launch in material.sites() for line in material.handed(launch, STAGES)[:1]
        }
        if places:
            yield self.finding(
                subject,
                f"`{STAGES}` is given to a kernel without a loop that loads: there is nothing that "
                "stages could overlap, and the number has no effect",
                "leave it out",
                sorted(places),
                Severity.NOTE,
            )
