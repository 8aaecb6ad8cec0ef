"""A launch takes the first of several configurations, and nothing searches them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.facts import Material
from extractors.host.tuning import picks_of
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import SEARCHED
from kb.evidence import Finding, Lines, Severity

_PICKED = """
import math
from types import SimpleNamespace
import cuda.tile as ct
import torch
Int = ct.Constant[int]

def space():
    return [SimpleNamespace(T=64), SimpleNamespace(T=128)]

@ct.kernel
def move(x, out, T: Int):
    i = ct.bid(0)
    ct.store(out, index=(ct.bid(1), i), tile=ct.load(x, index=(ct.bid(1), i), shape=(1, T)))

def run(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    best = space()[0]
    grid = (math.ceil(x.shape[1] / best.T), x.shape[0], 1)
    ct.launch(None, grid, move, (x, out, best.T))
    return out
"""


class FirstConfigurationOnly(Rule):
    """Host code lists several configurations and takes one by position: the others are never
    launched on this path, and none was timed."""

    name = "first-configuration-only"
    dialects = ("cutile",)
    matches = (Case(_PICKED, "first of 2"),)
    near_misses = (
        NearMiss(
            vary(_PICKED, ("SimpleNamespace(T=64), ", "")),
            why="there is one configuration: nothing is left out",
        ),
        NearMiss(SEARCHED, why="the configurations are searched"),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_fwd_kernel_with_lse", 926),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for at, (count, lines) in _picked(material).items() if material is not None else ():
            yield self.finding(
                subject,
                f"the launch at line {lines[0]} takes the first of {count} configurations: none of "
                "them is timed on this path, and the others are never used",
                "search the configurations, or list the one that is meant",
                [at, lines],
                Severity.NOTE,
            )


def _picked(material: Material) -> dict[Lines, tuple[int, Lines]]:
    """Where a configuration is taken by position: how many different ones there are, and the
    launch that it reaches."""
    found: dict[Lines, tuple[int, Lines]] = {}
    counts: dict[int, int] = {}
    for launch in material.launches:
        for pick in picks_of(material, launch):
            if id(pick) not in counts:
                counts[id(pick)] = len(set(pick.points))
            count = counts[id(pick)]
            if count > 1:
                known = found.get(pick.lines, (0, launch.lines))
                found[pick.lines] = (max(count, known[0]), known[1])
    return found
