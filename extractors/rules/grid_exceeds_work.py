"""A persistent grid is cut to the number of tiles before it is multiplied, so that some blocks have
no tile."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.conditions import parts
from extractors.host.events import LaunchRecord
from extractors.host.expr import atoms, is_sms
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.syntax.nodes import each
from kb.evidence import Finding, Severity

_TILED = (
    TILE
    + """
import torch
@ct.kernel(occupancy=2)
def rows(x, out, T: Int):
    n = ct.cdiv(x.shape[0], T)
    for i in range(ct.bid(0), n, ct.num_blocks(0)):
        ct.store(out, index=(i, 0), tile=ct.load(x, index=(i, 0), shape=(T, 64)) * 2.0)

def run(x, out):
    sms = torch.cuda.get_device_properties("cuda").multi_processor_count
    blocks = min(sms, ct.cdiv(x.shape[0], 32)) * 2
    ct.launch(None, (blocks, 1, 1), rows, (x, out, 32))
"""
)
_POINTER = (
    POINTER
    + """
import torch
@triton.jit
def rows(x, out, n, T: tl.constexpr):
    for i in range(tl.program_id(0), tl.cdiv(n, T), tl.num_programs(0)):
        at = i.to(tl.int64) * T + tl.arange(0, T)
        tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) * 2.0, mask=at < n)

def run(x, out):
    n = x.numel()
    sms = torch.cuda.get_device_properties("cuda").multi_processor_count
    rows[(min(sms, triton.cdiv(n, 32)) * 4,)](x, out, n, 32)
"""
)


class GridExceedsWork(Rule):
    """The grid is `min(multiprocessors, tiles) * factor`: with fewer tiles than multiprocessors
    there are `factor` times as many blocks as tiles, and with as many tiles as blocks a part of
    them is still idle. `min(multiprocessors * factor, tiles)` is what fills the machine."""

    name = "grid-exceeds-work"
    matches = (Case(_TILED, "more blocks"), Case(_POINTER, "more blocks"))
    near_misses = (
        NearMiss(
            vary(_TILED, ("min(sms, ct.cdiv(x.shape[0], 32)) * 2",
                          "min(sms * 2, ct.cdiv(x.shape[0], 32))")),
            why="no more blocks than tiles",
        ),
        NearMiss(
            vary(_POINTER, ("triton.cdiv(n, 32)) * 4", "4096) * 4")),
            why="the smaller number does not count tiles",
        ),
    )  # fmt: skip
    seen = (
        Seen("tilegym", "tilegym/ops/cutile/matmul.py", "_static_persistent_matmul_kernel", 392),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for launch in material.sites() if material is not None else ():
            grid = launch.grid if isinstance(launch.grid, tuple) else (launch.grid,)
            for part in grid if subject.facts.loops else ():
                if material is not None and _multiplied(part):
                    text = material.names(launch).text(part)
                    yield self.finding(
                        subject,
                        f"the grid is `{text[:160]}`: the limit to the number of tiles is taken "
                        "before the multiplication, so that there are more blocks than tiles when "
                        "tiles are few",
                        "multiply the number of multiprocessors, and take the minimum last",
                        [launch.lines, *subject.host.grid_lines[:1], *_written(material, launch)],
                        Severity.NOTE,
                    )
                    return


def _written(material: Material, launch: LaunchRecord) -> Iterator[tuple[int, int]]:
    """Where the function that launches, or one inside it, multiplies a minimum."""
    for function in material.tree.body:
        low, high = lines_of(function)
        if not low <= launch.lines[0] <= high:
            continue
        for node in each(function, ast.BinOp):
            if isinstance(node.op, ast.Mult):
                sides = [one.func for one in (node.left, node.right) if isinstance(one, ast.Call)]
                if any(isinstance(one, ast.Name) and one.id == "min" for one in sides):
                    yield lines_of(node)


def _multiplied(part: Value) -> bool:
    """`min(multiprocessors, tiles) * factor`, the factor a number or a tuned value."""
    if not isinstance(part, Expr) or part.op != "*":
        return False
    factors = [one for one in part.args if _factor(one)]
    cut = [one for one in part.args if isinstance(one, Expr) and one.op == "min"]
    return bool(factors and cut) and any(
        any(any(map(is_sms, atoms(arg))) for arg in one.args)
        and any(part.op in ("dim", "cdiv") for arg in one.args for part in parts(arg))
        for one in cut
    )


def _factor(value: Value) -> bool:
    tuned = isinstance(value, Expr) and value.op == "axis"
    return tuned or (isinstance(value, int) and value > 1)
