"""A quotient of the grid is always one, because of how its divisor was rounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.conditions import parts
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.values import Expr, Value
from extractors.patterns.cases import TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import ROWS_POINTER
from kb.evidence import Finding, Severity

_POINTER = (
    ROWS_POINTER
    + """
def run(x):
    m, n = x.shape
    T = triton.next_power_of_2(n)
    out = torch.empty_like(x)
    rows[(m, triton.cdiv(n, T))](x, out, n, T)
    return out
"""
)
_QUOTIENT = (
    TILE
    + """
import torch
@ct.kernel
def rows(x, out, T: Int):
    i = ct.bid(0)
    tile = ct.load(x, index=(i, 0), shape=(1, T), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(i, 0), tile=tile * 2.0)

def next_power_of_2(n):
    return 1 << (n - 1).bit_length()

def run(x):
    m, n = x.shape
    T = next_power_of_2(n)
    out = torch.empty_like(x)
    ct.launch(None, (m * ct.cdiv(n, T), 1, 1), rows, (x, out, T))
    return out
"""
)


class SettledByRounding(Rule):
    """The grid divides a size by itself rounded up to a power of two: the quotient is one whatever
    the size is, so that what looks like an axis of the grid is none."""

    name = "settled-by-rounding"
    matches = (
        Case(_POINTER, "always 1"),
        Case(_QUOTIENT, "always 1"),
        Case(
            vary(_POINTER, ("T = triton.next_power_of_2(n)",
                            "T = max(16, triton.next_power_of_2(n))")),
            "always 1",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_POINTER, ("T = triton.next_power_of_2(n)",
                            "T = min(1024, triton.next_power_of_2(n))")),
            why="the rounded size has a limit, and longer rows exceed it",
        ),
        NearMiss(
            vary(_QUOTIENT, ("T = next_power_of_2(n)", "T = next_power_of_2(m)")),
            why="another size is rounded",
        ),
    )  # fmt: skip
    seen = (
        Seen(
            "tilegym", "tilegym/ops/cutile/rms_norm.py", "_rms_norm_kernel_static_persistent", 379
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for launch in material.sites() if material is not None else ():
            for message in _settled(material, launch) if material is not None else ():
                yield self.finding(
                    subject,
                    message,
                    "drop the factor, or limit the tile if rows may be longer",
                    [launch.lines, *subject.host.grid_lines],
                    Severity.NOTE,
                )
                return


def _settled(material: Material, launch: LaunchRecord) -> Iterator[str]:
    """What to say of each quotient."""
    names = material.names(launch)
    for part in parts(launch.grid):
        if part.op == "cdiv" and rounded_up(part.args[0], part.args[1]):
            text = names.text(part)
            yield f"`{text}` in the grid is always 1: the row is one tile"


def rounded_up(size: Value, other: Value) -> bool:
    """Whether a value is a size rounded up to a power of two, or the larger of that and another."""
    if isinstance(other, Expr) and other.op == "max":
        return any(rounded_up(size, one) for one in other.args)
    return isinstance(other, Expr) and other.op == "npow2" and other.args[0] == size
