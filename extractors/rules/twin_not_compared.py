"""Two arrays of the caller are read at the same places, and one is asked for its extents."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.callers import in_forward
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.twins import twins
from kb.evidence import Finding, Severity

_POINTER = (
    POINTER
    + """
import torch
@triton.jit
def add(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, T)
    keep = tl.arange(0, T) < n
    v = tl.load(x + at, mask=keep, other=0.0) + tl.load(y + at, mask=keep, other=0.0)
    tl.store(out + at, v, mask=keep)

def run(x, y):
    m, n = x.shape
    out = torch.empty_like(x)
    add[(m,)](x, y, out, n, triton.next_power_of_2(n))
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def add(x, y, out, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i, 0), shape=(1, T)) + ct.load(y, index=(i, 0), shape=(1, T))
    ct.store(out, index=(i, 0), tile=v)

def run(x, y):
    out = torch.empty_like(x)
    ct.launch(None, (x.shape[0], 1, 1), add, (x, y, out, 64))
    return out
"""
)


_BACKWARD = """
class Add(torch.autograd.Function):
    @staticmethod
    def backward(ctx, y):
        return run(ctx.saved_tensors[0], y)
"""


class TwinNotCompared(Rule):
    """A tile of one array of the caller is read at the places and under the mask at which one of
    another is, and the launch and the conditions on the way to it rest on extents of that other one
    alone. Functions that only other modules of the package call are left out: those may compare."""

    name = "twin-not-compared"
    matches = (
        Case(_POINTER, "`y` is read at the places of `x`"),
        Case(_TILES, "`y` is read at the places of `x`"),
        Case(vary(_POINTER, ("    out = torch", "    y = y.view(-1, n)\n    out = torch")), "`y`"),
    )
    near_misses = (
        NearMiss(
            vary(_POINTER, ("    out = torch", "    assert y.shape == x.shape\n    out = torch")),
            why="the host compares them",
        ),
        NearMiss(
            vary(_POINTER, ("    out = torch", "    if y.numel() != x.numel():\n"
                            "        raise ValueError\n    out = torch")),
            why="the host compares how many there are",
        ),
        NearMiss(
            vary(_POINTER, ("(x, y):", "(x):"), ("    out = torch", "    y = torch.rand_like(x)\n"
                            "    out = torch")),
            why="the host makes it in the shape of the other",
        ),
        NearMiss(
            vary(_POINTER, ("tl.load(y + at,", "tl.load(y + tl.arange(0, T),")),
            why="it is read at places of its own",
        ),
        NearMiss(
            _POINTER + _BACKWARD, why="a backward pass, which gets what the forward pass saw"),
        NearMiss(vary(_POINTER, ("x, y, out, n, tri", "x, x[1:], out, n, tri")), why="one array"),
    )  # fmt: skip
    seen = (Seen("liger-kernel", "liger_kernel/ops/kl_div.py", "_kldiv_kernel_forward", 80),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        found = [
            one
            for one in twins(subject.facts, subject.host)
            if material is not None and not _inner(material, one.launch)
        ]
        if not found:
            return
        names = ", ".join(f"`{one.name}`" for one in found)
        of = ", ".join(dict.fromkeys(f"`{one.of}`" for one in found))
        yield self.finding(
            subject,
            f"{names} {'are' if len(found) > 1 else 'is'} read at the places of {of}, whose "
            "extents alone the host asks for: the shapes are not compared, and an array of another "
            "shape is read out of bounds or at other places",
            "compare the shapes before the launch",
            [
                *(one.access for one in found),
                *(one.launch.lines for one in found),
                *(one.counted for one in found),
            ],
            Severity.NOTE,
        )


def _inner(material: Material, launch: LaunchRecord) -> bool:
    """Whether other modules of the package take what leads to a launch, and no forward pass of its
    own does: those who call it may compare."""
    taken = material.loader is not None and any(map(material.loader.imported, launch.stack[:1]))
    return taken and not in_forward(material, launch)
