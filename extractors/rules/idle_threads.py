"""A block has more threads than its largest tile has elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.spaces import passed
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import ROWS_POINTER
from kb.analysis.facts import Facts
from kb.evidence import Finding, Lines, Severity

DEFAULT_WARPS = 4
"""Warps of a block where a launch says nothing. Source: Triton documentation, triton.Config."""

LANES = 32
"""Threads of a warp. Source: NVIDIA CUDA C++ Programming Guide, SIMT architecture."""

_ROWS = (
    ROWS_POINTER
    + """
def run(x):
    out = torch.empty_like(x)
    rows[(x.shape[0],)](x, out, x.shape[1], 32)
    return out
"""
)
_NUMBERS = vary(
    _ROWS,
    ("    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, T)\n"
     "    tl.store(out + at, tl.load(x + at, mask=tl.arange(0, T) < n) * 2.0, "
     "mask=tl.arange(0, T) < n)\n",
     "    at = tl.program_id(0).to(tl.int64) * n\n"
     "    tl.store(out + at, tl.load(x + at) * 2.0)\n"),
)  # fmt: skip


class IdleThreads(Rule):
    """Every launch gives a block more threads than the largest tile of the kernel has elements, or
    the kernel has no tile at all: numbers that the launches hand over say how large each is."""

    name = "idle-threads"
    dialects = ("triton",)
    matches = (
        Case(_ROWS, "128 threads"),
        Case(_NUMBERS, "single elements"),
        Case(vary(_ROWS, (", 32)", ", 128, num_warps=8)")), "256 threads"),
    )
    near_misses = (
        NearMiss(vary(_ROWS, (", 32)", ", 128)")), why="an element for each thread"),
        NearMiss(vary(_ROWS, (", 32)", ", 32, num_warps=1)")), why="one warp"),
        NearMiss(
            vary(_ROWS, (", 32)", ", triton.next_power_of_2(x.shape[1]))")),
            why="rows may be long",
        ),
        NearMiss(
            vary(_ROWS, ("    rows[", "    rows[(1,)](x, out, x.shape[1], 1024)\n    rows[")),
            why="another launch has long rows",
        ),
        NearMiss(
            vary(_ROWS, ("(x, out, x.shape[1], 32)", "(x, out, x.shape[1], 32, num_warps=w)"),
                 ("def run(x):", "def run(x, w):")),
            why="the caller says how many warps",
        ),
    )  # fmt: skip
    seen = (
        Seen("gemlite", "gemlite/quant_utils.py", "scale_activations_mxfp8_triton_v1_kernel", 750),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if facts.of_threads or material is None or material.searches or not material.launches:
            return
        if subject.facts.kernel.dialect not in self.dialects:
            return
        shapes = {facts.types.shape(node.result) for node in facts.graph.nodes if node.op.results}
        rows = [_sizes(material, facts, launch, shapes) for launch in material.launches]
        known = [row for row in rows if row is not None]
        if len(known) < len(rows) or any(elements >= threads for threads, elements in known):
            return
        threads, elements = max(known)
        held = f"{elements} elements" if elements > 1 else "single elements"
        yield self.finding(
            subject,
            f"a block has {threads} threads, and the largest tile of the kernel {held}: the other "
            "threads repeat the work of these or idle",
            "fewer warps, or more rows or elements in a block",
            list(_lines(subject, material)),
            Severity.NOTE,
        )


def _lines(subject: Subject, material: Material) -> Iterator[Lines]:
    head = subject.facts.kernel.entry.span.line
    yield head, head
    yield from (site.lines for site in material.sites())


def _sizes(
    material: Material, facts: Facts, launch: LaunchRecord, shapes: set[tuple[str, ...]]
) -> tuple[int, int] | None:
    """Threads of a block and elements of the largest tile; None where the launch leaves either
    open."""
    warps = dict(launch.kernel.hints).get("num_warps", DEFAULT_WARPS)
    if not isinstance(warps, int):
        return None
    most = 1
    for shape in shapes:
        elements = 1
        for extent in shape or ():
            number = _extent(material, facts, launch, extent)
            if number is None:
                return None
            elements *= number
        most = max(most, elements)
    return warps * LANES, most


def _extent(material: Material, facts: Facts, launch: LaunchRecord, extent: str) -> int | None:
    if extent.isdigit():
        return int(extent)
    given = passed(material, launch, extent) if extent in facts.constexprs else None
    if given is None or len(given) != 1 or isinstance(given[0], bool):
        return None
    return given[0] if isinstance(given[0], int) else None
