"""A loop over rows or tiles goes on by the number of blocks, and there is a block for each."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.events import LaunchRecord
from extractors.host.render import leaves
from extractors.host.values import Value
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def move(x, out, n, rows, T: tl.constexpr):
    at = tl.arange(0, T)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row.to(tl.int64) * n + at, mask=at < n, other=0.0)
        tl.store(out + row.to(tl.int64) * n + at, v, mask=at < n)

def run(x):
    rows, n = x.shape
    out = torch.empty_like(x)
    move[(rows,)](x, out, n, rows, 1024)
    return out
"""
)
_TILES = (
    SOFTMAX
    + """
import torch

def run(x):
    out = torch.empty_like(x)
    ct.launch(None, (x.shape[0], 1, 1), soft, (out, x, x.shape[0], 1024))
    return out
"""
)


class LoopRunsOnce(Rule):
    """A loop begins at the own block and goes on by the number of blocks, up to a number that every
    launch has as many blocks for: each block takes one round."""

    name = "loop-runs-once"
    matches = (Case(_ROWS, "`rows`"), Case(_TILES, "`ROWS`"))
    near_misses = (
        NearMiss(vary(_ROWS, ("[(rows,)]", "[(min(rows, 528),)]")), why="rows may be more"),
        NearMiss(vary(_TILES, ("(x.shape[0], 1, 1)", "(528, 1, 1)")), why="as many as there are"),
        NearMiss(
            vary(_ROWS, ("range(tl.program_id(0), rows, tl.num_programs(0))", "range(0, rows)")),
            why="every block takes all rows",
        ),
    )
    seen = (Seen("tilegym", "tilegym/suites/liger/cutile/tvd.py", "_tv_distance_kernel_ct", 151),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        sites = material.launches if material is not None else []
        for loop in facts.loops if sites else ():
            found = _turns(facts, loop)
            if found is not None and all(_enough(site, *found) for site in sites):
                yield self.finding(
                    subject,
                    f"the loop up to `{found[1]}` goes on by the number of blocks, and every "
                    "launch has as many blocks: it runs once in each",
                    "take the loop out, or launch as many blocks as the device holds at a time",
                    [loop.node.head, *sorted({site.lines for site in sites})[:4]],
                    Severity.NOTE,
                )


def _turns(facts: Facts, loop: Loop) -> tuple[int, str] | None:
    """The axis of the grid that a loop goes along, and the parameter that ends it."""
    if loop.node.op.kind != OpKind.FOR or not (loop.low and loop.high and loop.step):
        return None
    low, high, step = (facts.values.expr(v).atom for v in (loop.low, loop.high, loop.step))
    if low is None or high is None or step is None:
        return None
    kinds = (low.kind, high.kind, step.kind)
    if kinds != (AtomKind.BLOCK, AtomKind.PARAMETER, AtomKind.BLOCKS):
        return None
    axis = low.text[low.text.find("(") + 1 : -1]
    return (int(axis), high.value) if axis.isdigit() and axis in step.text else None


def _enough(site: LaunchRecord, axis: int, name: str) -> bool:
    """Whether a launch has as many blocks along an axis as it hands over for a parameter."""
    grid: tuple[Value, ...] = site.grid if isinstance(site.grid, tuple) else (site.grid,)
    given = leaves(dict(site.args).get(name))
    return axis < len(grid) and given == leaves(grid[axis]) and given != [None]
