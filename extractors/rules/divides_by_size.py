"""The host divides by an extent that may be zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.divisors import divisors
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.patterns.cases import TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import ROWS_POINTER
from extractors.rules.compiled_per_size import innermost
from kb.evidence import Finding, Lines, Severity

_ROWS = (
    ROWS_POINTER
    + """
def run(x):
    n = x.shape[-1]
    m = x.numel() // n
    out = torch.empty_like(x)
    rows[(m,)](x, out, n, 1024)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def move(x, out, W: Int, T: Int):
    ct.store(out, index=(ct.bid(0), 0), tile=ct.load(x, index=(ct.bid(0), 0), shape=(1, T)))

def run(x, out, sms):
    share = sms // x.shape[-1]
    ct.launch(None, (x.shape[0], share, 1), move, (x, out, x.shape[1], 64))
"""
)


class DividesBySize(Rule):
    """A number that the launch rests on is a quotient or a remainder by the last extent of an array
    of the caller, or by what is multiplied of extents, and no condition on the way to the launch
    compares that extent, or the number of elements, with zero or one."""

    name = "divides-by-size"
    matches = (Case(_ROWS, "x.shape[-1]"), Case(_TILES, "x.shape[-1]"))
    near_misses = (
        NearMiss(
            vary(_ROWS, ("    out = torch", "    assert n > 0\n    out = torch")),
            why="the host refuses rows of nothing",
        ),
        NearMiss(
            vary(_ROWS, ("    n = x.shape[-1]", "    if x.numel() == 0:\n        return x\n"
                         "    n = x.shape[-1]")),
            why="the host returns before, when there is nothing to do",
        ),
        NearMiss(vary(_ROWS, ("x.numel() // n", "x.numel() // 64")), why="a number"),
        NearMiss(
            vary(_ROWS, ("x.numel() // n", "x.numel() // max(n, 1)")), why="it is kept above zero"
        ),
        NearMiss(
            vary(_ROWS, ("x.numel() // n", "x.numel() // x.shape[1]")), why="heads, perhaps"
        ),
        NearMiss(vary(_ROWS, ("x.numel() // n", "n // x.dim()")), why="arrays have axes"),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/ops/_safe_softmax.py", "_safe_softmax_kernel", 45),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        told: dict[str, set[Lines]] = {}
        for launch in material.sites() if material is not None else ():
            for text, lines in _of_rows(material, launch) if material is not None else ():
                told.setdefault(text, set()).update(lines)
        if told:
            shown = ", ".join(f"`{text}`" for text in told)
            yield self.finding(
                subject,
                f"the host divides by {shown}: where that is zero, as for an empty array, the call "
                "fails with a division by zero",
                "return before the launch when there is nothing to do",
                sorted({one for rows in told.values() for one in rows}),
                Severity.NOTE,
            )


def _of_rows(material: Material, launch: LaunchRecord) -> Iterator[tuple[str, set[Lines]]]:
    """Divisors that count the elements of rows: heads and other axes of a model are not empty."""
    for by, text, lines in divisors(material, launch):
        if by.op == "*" or innermost(material, by):
            yield text, lines
