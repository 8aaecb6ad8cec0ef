"""One tile size and one set of hints for every size and every target."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.expr import is_number
from extractors.host.facts import Material
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
    """Every launch of a kernel hands over the same numbers for all tile sizes and hints: neither
    sizes nor the target choose among any, and nothing is searched."""

    name = "fixed-configuration"
    matches = (Case(_ROWS, "`T` is 1024"), Case(_TILES, "`occupancy` is 4"))
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
            vary(_ROWS, (", num_warps=4", "")), why="the hints are left to the compiler's defaults"
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
            21,
        ),
        Seen("liger-kernel", "liger_kernel/ops/grpo_loss.py", "_grpo_loss_fwd_kernel", 103),
    )

    def find(self, subject: Subject) -> Iterator[Finding]:
        material = subject.host.material
        if material is None or material.searches or not material.launches:
            return
        tiles, hints = _tiles(subject, material), _hints(material)
        if tiles and hints and max(tiles.values()) > 1:
            text = ", ".join(f"`{name}` is {value:g}" for name, value in (tiles | hints).items())
            given: list[Lines] = [
                dict(launch.arg_lines).get(name, launch.lines)
                for launch in material.sites()
                for name in tiles
            ]
            head = subject.facts.kernel.entry.span.line
            yield self.finding(
                subject,
                f"{text} at every launch, whatever the sizes and the target are: nothing is "
                "searched or chosen",
                "search them, or choose them by the sizes and the target",
                [(head, head), *given],
                Severity.NOTE,
            )


def _tiles(subject: Subject, material: Material) -> dict[str, float]:
    """The one number of each tile size; none where one of them is not the same number always."""
    found: dict[str, float] = {}
    for fact in parameters_of(subject.facts):
        if fact.kind != "constexpr" or fact.role is not ParameterRole.TILE_SIZE:
            continue
        rows = [passed(material, launch, fact.name) for launch in material.launches]
        values = {value for row in rows for value in row or (None,)}
        number = values.pop() if len(values) == 1 else None
        if not isinstance(number, int | float) or isinstance(number, bool):
            return {}
        found[fact.name] = number
    return found


def _hints(material: Material) -> dict[str, float]:
    """The one number of each hint; none where one of them is not the same number always."""
    found: dict[str, float] = {}
    for launch in material.launches:
        for name, value in launch.kernel.hints:
            if not is_number(value) or not isinstance(value, int | float):
                return {}
            if found.setdefault(name, value) != value:
                return {}
    return found
