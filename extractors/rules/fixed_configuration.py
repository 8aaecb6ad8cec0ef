"""One tile size and one set of hints for every size and every target."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.expr import is_number
from extractors.host.facts import Material, function_at
from extractors.host.origins import lines_of
from extractors.host.spaces import passed
from extractors.patterns.cases import TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import LAUNCHED_ROWS
from kb.analysis.parameters import parameters_of
from kb.evidence import Finding, Lines, Severity
from kb.knowledge import ParameterRole

_ROWS = vary(LAUNCHED_ROWS, ("triton.next_power_of_2(n))", "1024, num_warps=4)"))
_TILES = (
    vary(TILE, ("import math\n", "import math\nimport torch\n"))
    + """
@ct.kernel(occupancy=4)
def move(x, out, T: Int):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)))

def run(x):
    out = torch.empty_like(x)
    ct.launch(None, (ct.cdiv(x.shape[0], 1024), 1, 1), move, (x, out, 1024))
    return out
"""
)


class FixedConfiguration(Rule):
    """Every launch of a kernel hands over the same number for a tile size, or for a hint that says
    how many blocks share a multiprocessor: neither sizes nor the target choose any tile among
    numbers, or any hint, and nothing is searched."""

    name = "fixed-configuration"
    matches = (
        Case(_ROWS, "`T` is 1024"),
        Case(vary(_ROWS, (", num_warps=4", "")), "`T` is 1024"),
        Case(_TILES, "`occupancy` is 4"),
        Case(vary(_TILES, ("out, 1024))", "out, 2 ** (x.shape[1] - 1).bit_length()))")), "`occup"),
    )
    near_misses = (
        NearMiss(
            vary(_ROWS, ("n, 1024, num", "n, triton.next_power_of_2(n), num")),
            why="the tile follows the row",
        ),
        NearMiss(
            vary(_ROWS, ("num_warps=4", "num_warps=4 if n < 512 else 8")),
            why="the size chooses the hint",
        ),
        NearMiss(
            vary(
                _ROWS,
                (
                    "    return out",
                    "    rows[(m,)](x, out, n, 2048, num_warps=4)\n    return out",
                ),
            ),
            why="there are two",
        ),
    )
    seen = (
        Seen(
            "tilegym",
            "tilegym/ops/cutile/experimental/fused_linear_cross_entropy.py",
            "_ce_online_kernel",
            20,
        ),
        Seen("liger-kernel", "liger_kernel/ops/grpo_loss.py", "_grpo_loss_fwd_kernel", 103),
    )

    def find(self, subject: Subject) -> Iterator[Finding]:
        material = subject.host.material
        if material is None or material.searches or not material.launches:
            return
        tiles, hints = _tiles(subject, material), _hints(material)
        if tiles is None or hints is None or not tiles | hints:
            return
        own = {name: n for name, n in hints.items() if name not in _OF_TILES}
        if not own and max(tiles.values(), default=1) <= 1:
            return
        text = ", ".join(f"`{name}` is {value:g}" for name, value in (tiles | hints).items())
        yield self.finding(
            subject,
            f"{text} at every launch, whatever the sizes and the target are: it is fixed, nothing "
            "is searched or chosen",
            "search it, or choose it by the sizes and the target",
            _lines(subject, material, tiles, hints),
            Severity.NOTE,
        )


_OF_TILES = frozenset({"num_warps", "num_stages"})
"""Hints that one looks at beside a tile that they are for."""


def _lines(
    subject: Subject, material: Material, tiles: dict[str, float], hints: dict[str, float]
) -> list[Lines]:
    """The head of the kernel with its decorators, and where the numbers are written and given."""
    head = subject.facts.kernel.entry.span.line
    found: list[Lines] = [(head, head)]
    own = function_at(material.tree, material.signature.name, material.signature.lines)
    if own is not None and any(name in dict(material.signature.decorator_hints) for name in hints):
        found += (lines_of(one) for one in own.decorator_list if isinstance(one, ast.Call))
    for launch in material.sites():
        for name in tiles:
            found.append(dict(launch.arg_lines).get(name, launch.lines))
            found += material.made(launch, name)
        for name in hints:
            found += material.handed(launch, name)
    return found


def _tiles(subject: Subject, material: Material) -> dict[str, float] | None:
    """The one number of each tile size that is the same always; None where one has several."""
    found: dict[str, float] = {}
    for fact in parameters_of(subject.facts):
        if fact.kind != "constexpr" or fact.role is not ParameterRole.TILE_SIZE:
            continue
        rows = [passed(material, launch, fact.name) for launch in material.launches]
        values = {value for row in rows for value in row or (None,)}
        number = values.pop() if len(values) == 1 else None
        if values:
            return None
        if isinstance(number, int | float) and not isinstance(number, bool):
            found[fact.name] = number
    return found


def _hints(material: Material) -> dict[str, float] | None:
    """The one number of each hint; None where one of them is not the same number always."""
    found: dict[str, float] = {}
    for launch in material.launches:
        for name, value in launch.kernel.hints:
            if not is_number(value) or not isinstance(value, int | float):
                return None
            if found.setdefault(name, value) != value:
                return None
    return found
