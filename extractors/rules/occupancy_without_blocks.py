"""Several blocks are asked to share a multiprocessor, and the grid has one for each."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.derived import grid_lines
from extractors.host.expr import is_sms
from extractors.host.facts import Material, axis_atoms, function_at
from extractors.host.origins import lines_of
from extractors.host.spaces import space_lines, tried
from extractors.host.tables import BY_TARGET
from extractors.host.values import Expr, Value
from extractors.patterns.cases import TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding, Lines, Severity

HINT = "occupancy"
"""The hint of cuTile that says how many blocks a multiprocessor is to hold at a time."""

_FIXED = (
    TILE
    + """
import torch
@ct.kernel(occupancy=2)
def rows(x, out, T: Int):
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], T), ct.num_blocks(0)):
        ct.store(out, index=(i, 0), tile=ct.load(x, index=(i, 0), shape=(T, 64)) * 2.0)

def run(x, out):
    sms = torch.cuda.get_device_properties("cuda").multi_processor_count
    ct.launch(None, (min(sms, ct.cdiv(x.shape[0], 32)), 1, 1), rows, (x, out, 32))
"""
)
_TUNED = vary(
    _FIXED,
    ("import torch\n@ct.kernel(occupancy=2)", "import torch\nfrom types import SimpleNamespace\n"
     "from cuda.tile.tune import exhaustive_search\n@ct.kernel"),
    ("    ct.launch(None, (min(sms, ct.cdiv(x.shape[0], 32)), 1, 1), rows, (x, out, 32))\n",
     "    found = exhaustive_search(\n"
     "        [SimpleNamespace(occupancy=o) for o in (1, 2, 4)], None, lambda cfg: (sms, 1, 1),\n"
     "        rows, lambda cfg: (x, out, 32), lambda cfg: {'occupancy': cfg.occupancy})\n"
     "    best = found.best.config\n"
     "    tuned = rows.replace_hints(occupancy=best.occupancy)\n"
     "    ct.launch(None, (sms, 1, 1), tuned, (x, out, 32))\n"),
)  # fmt: skip


class OccupancyWithoutBlocks(Rule):
    """A hint, or every search of it, asks for more than one block on a multiprocessor at a time,
    and the grid has no more blocks than there are multiprocessors."""

    name = "occupancy-without-blocks"
    dialects = ("cutile",)
    matches = (
        Case(_FIXED, "`occupancy` is 2"),
        Case(_TUNED, "1, 2, 4"),
        Case(
            vary(_FIXED, ("occupancy=2", "occupancy=ct.ByTarget(sm_100=16)")), "`occupancy` is 16"
        ),
    )
    near_misses = (
        NearMiss(vary(_FIXED, ("min(sms, ", "min(sms * 2, ")), why="there are blocks for it"),
        NearMiss(vary(_FIXED, ("min(sms, ct", "(ct")), why="a block for every tile"),
        NearMiss(vary(_FIXED, ("1, 1), rows", "2, 1), rows")), why="another axis has two"),
        NearMiss(vary(_FIXED, ("occupancy=2", "occupancy=1")), why="one is asked for"),
        NearMiss(
            vary(_FIXED, ("occupancy=2", "occupancy=ct.ByTarget(sm_100=1)")),
            why="one is asked for on that target",
        ),
        NearMiss(
            vary(
                _TUNED,
                ("lambda cfg: (sms, 1, 1)", "lambda cfg: (sms * cfg.occupancy, 1, 1)"),
                ("(None, (sms, 1, 1)", "(None, (sms * best.occupancy, 1, 1)"),
            ),
            why="the grid follows what is tuned",
        ),
    )
    seen = (
        Seen(
            "tilegym",
            "tilegym/suites/unsloth/cutile/grouped_gemm.py",
            "_grouped_gemm_fwd_kernel_ct",
            587,
        ),
    )

    def find(self, subject: Subject) -> Iterator[Finding]:
        material = subject.host.material
        if material is None:
            return
        for grid, text, lines in _asked(material):
            yield self.finding(
                subject,
                f"`{HINT}` {text}, and the grid is `{material.names(None).text(grid)[:80]}`: no "
                "multiprocessor gets a second block, and the hint only takes registers away",
                "launch so many blocks for each multiprocessor, or leave the hint out",
                lines,
                Severity.NOTE,
            )
            return


def _asked(material: Material) -> Iterator[tuple[Value, str, list[Lines]]]:
    """Grids of one block for each multiprocessor, with the hint and where both are said."""
    for search in material.searches:
        rows = dict(search.hints) if isinstance(search.hints, tuple) else {}
        axes = axis_atoms(rows.get(HINT), search.id)
        values = [value for name in axes for value in tried(search, name)]
        if _many(values) and _one_each(search.grid) and not axis_atoms(search.grid, search.id):
            shown = ", ".join(map(str, values))
            yield search.grid, f"is searched ({shown})", [*space_lines(search), search.lines]
    for launch in material.sites():
        given = _of_targets(dict(launch.kernel.hints).get(HINT))
        if _many(given) and _one_each(launch.grid):
            places = [*_decorated(material), *grid_lines(material), launch.lines]
            yield launch.grid, f"is {', '.join(map(str, given))}", places


def _decorated(material: Material) -> list[Lines]:
    """Where the kernel is given the hint itself."""
    signature = material.signature
    kernel = function_at(material.tree, signature.name, signature.lines)
    calls = [one for one in (kernel.decorator_list if kernel else []) if isinstance(one, ast.Call)]
    return [lines_of(one) for one in calls if any(word.arg == HINT for word in one.keywords)]


def _of_targets(given: Value) -> list[Value]:
    """A hint, or what it is for each of the targets that it names."""
    if isinstance(given, Expr) and given.op == "call" and given.args[0] in BY_TARGET:
        return list(given.args[1:])
    return [given]


def _many(values: list[Value]) -> bool:
    return any(isinstance(one, int) and one > 1 for one in values)


def _one_each(grid: Value) -> bool:
    """Whether a grid has one block for each multiprocessor at most."""
    axes = [one for one in (grid if isinstance(grid, tuple) else (grid,)) if one != 1]
    return len(axes) == 1 and _of_machine(axes[0])


def _of_machine(extent: Value) -> bool:
    """The number of multiprocessors, a part of it, or the least of it and other numbers."""
    if is_sms(extent):
        return True
    if not isinstance(extent, Expr):
        return False
    if extent.op in ("//", "cdiv"):
        return is_sms(extent.args[0])
    return extent.op == "min" and any(map(_of_machine, extent.args))
