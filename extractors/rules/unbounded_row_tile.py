"""A whole row is one tile, and nothing on the host keeps the row short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.conditions import parts
from extractors.host.events import CheckRecord, LaunchRecord, RoundRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.parameters import tile_extents
from kb.evidence import Finding, Severity

_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def total(x, out, sx, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * sx + at, mask=at < n, other=0.0)
    tl.store(out + row, tl.sum(v, axis=0))

def run(x):
    m, n = x.shape
    out = torch.empty(m)
    total[(m,)](x, out, x.stride(0), n, triton.next_power_of_2(n))
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def total(x, out, T: Int):
    v = ct.load(x, index=(ct.bid(0), 0), shape=(1, T), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(ct.bid(0),), tile=ct.sum(v, axis=1))

def next_power_of_2(n):
    return 1 << (n - 1).bit_length()

def run(x):
    out = torch.empty(x.shape[0])
    ct.launch(None, (x.shape[0], 1, 1), total, (x, out, next_power_of_2(x.shape[1])))
    return out
"""
)


_SHAPE = vary(
    _ROWS,
    ("import torch", "import math\nimport torch"),
    ("def run(x):", "def run(x, shape):"),
    ("    out = torch", "    n = math.prod(shape)\n    out = torch"),
)


class UnboundedRowTile(Rule):
    """A reduction, once per row, over a tile whose extent is the next power of two of an extent of
    an array or of all numbers of a shape, multiplied, and no check or branch of the host speaks of
    that extent."""

    name = "unbounded-row-tile"
    matches = (
        Case(_ROWS, "`T`"),
        Case(_TILES, "`T`"),
        Case(_SHAPE, "prod(shape)"),
        Case(
            vary(
                _ROWS,
                ("def run(x):", 'def run(x, mode):\n    if mode != "near":\n        return x'),
            ),
            "`T`",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_SHAPE, ("    n = math", "    assert math.prod(shape) <= 8192\n    n = math")),
            why="the host refuses longer rows",
        ),
        NearMiss(
            vary(
                _ROWS, ("def run(x):", 'def run(x, mode):\n    if mode == "far":\n        return x')
            ),
            why="the mode that is named may be for long rows",
        ),
        NearMiss(
            vary(_ROWS, ("    out = torch", "    assert n <= 16384\n    out = torch")),
            why="the host refuses longer rows",
        ),
        NearMiss(
            vary(_ROWS, ("    total[(m,)]",
                         "    if n > 16384:\n        return x.sum(1)\n    total[(m,)]")),
            why="longer rows take another way",
        ),
        NearMiss(
            vary(_ROWS, ("triton.next_power_of_2(n))", "min(1024, triton.next_power_of_2(n)))")),
            why="the extent is at most a number",
        ),
        NearMiss(
            vary(_ROWS, ("tl.store(out + row, tl.sum(v, axis=0))",
                         "tl.store(out + row * sx + at, v, mask=at < n)")),
            why="nothing is reduced: the tile may be cut into pieces at will",
        ),
        NearMiss(
            vary(_ROWS, ("    v = tl.load", "    for i in range(n):\n        v = tl.load"),
                 ("at < n, other=0.0)\n    tl.store(out + row, ",
                  "at < n, other=0.0)\n        tl.store(out + row + i, ")),
            why="a step of a recurrence, whose width is a size of the model",
        ),
    )  # fmt: skip
    seen = (
        Seen("tilegym", "tilegym/ops/cutile/softmax.py", "_softmax_kernel_tma", 276),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        facts = subject.facts
        if material is None or not facts.reductions or facts.contractions:
            return
        rows = {loop.node for loop in facts.item_loops}
        once = [n for n in facts.reductions if rows.issuperset(n.loops)]
        reduced = {e for n in once for e in facts.types.shape(n.op.inputs[0])}
        told: set[str] = set()
        for launch in material.launches:
            if _by_mode(launch):
                continue
            bounded = set(_bounded(material, launch))
            for name, value in launch.args:
                if name in told or name not in tile_extents(facts) or name not in reduced:
                    continue
                found = leaves(value)
                sizes = [_rounded(leaf) for leaf in found]
                if not found or any(size is None or size in bounded for size in sizes):
                    continue
                told.add(name)
                text = material.names(launch).text(sizes[0])
                yield self.finding(
                    subject,
                    f"`{name}` is {text} rounded up: a whole row is one tile, and the host sets no "
                    "limit to its length; long rows spill registers, and beyond the largest tile "
                    "the kernel does not compile",
                    f"check {text} against a limit, or go through longer rows in chunks",
                    [*_rounding(material, launch, value), launch.lines],
                    Severity.NOTE,
                )


def _by_mode(launch: LaunchRecord) -> bool:
    """Whether the launch stands where a mode is not the one that is named: that one may be for long
    rows, and what chose the mode may know the length."""
    named = [
        guard.holds == (guard.cond.op == "==")
        for guard in launch.path.guards
        if guard.cond.op in ("==", "!=") and any(isinstance(arg, str) for arg in guard.cond.args)
    ]
    return bool(named) and not any(named)


def _rounded(leaf: object) -> Expr | None:
    """The extent of an array, or the product of several, that is rounded up to a power of two."""
    if isinstance(leaf, Expr) and leaf.op == "npow2":
        size = leaf.args[0]
        extent = isinstance(size, Expr) and (size.op == "dim" or multiplied(size))
        return size if extent and isinstance(size, Expr) else None
    return None


def multiplied(size: Expr) -> bool:
    """Whether a size is the product of all numbers of a shape."""
    return size.op == "call" and size.args[0] == "prod"


def _bounded(material: Material, launch: LaunchRecord) -> Iterator[Expr]:
    """Whatever a check or a branch on the way to the launch speaks of."""
    conditions = [guard.cond for guard in launch.path.guards]
    checks = [e.cond for e in material.of_root(launch) if isinstance(e, CheckRecord)]
    for condition in (*conditions, *checks):
        yield from parts(condition)


def _rounding(material: Material, launch: LaunchRecord, value: object) -> list[tuple[int, int]]:
    """Where the extent is rounded up."""
    return [
        event.lines
        for event in material.before(launch)
        if isinstance(event, RoundRecord) and event.result in leaves(value)
    ][-1:]
