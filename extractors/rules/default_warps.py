"""A tile that grows with the problem, or is large, is worked on by the default number of warps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.events import LaunchRecord
from extractors.host.expr import OPPOSITE
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Choice, Expr, Value
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import LAUNCHED_ROWS
from extractors.rules.unbounded_row_tile import multiplied
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.evidence import Finding, Severity

WARPS = "num_warps"
THREADS = 128
"""Threads of the four warps that Triton takes when a launch says nothing."""

MANY = 64
"""Elements of one tile per thread: in 32 bits a quarter of the registers of a thread."""


class DefaultWarps(Rule):
    """No launch says how many warps a block has, and a tile that is loaded is a row of a matrix
    that is stored again, or has 64 elements for each thread of four warps, or more."""

    name = "default-warps"
    dialects = ("triton",)
    matches = (
        Case(LAUNCHED_ROWS, "next_power_of_two"),
        Case(vary(LAUNCHED_ROWS, ("triton.next_power_of_2(n))", "16384)")), "16384"),
        Case(
            vary(LAUNCHED_ROWS, ("import torch", "import math\nimport torch"),
                 ("def run(x):", "def run(x, shape):"),
                 ("    out = torch", "    n = math.prod(shape)\n    out = torch")),
            "prod(shape)",
        ),
        Case(
            vary(
                LAUNCHED_ROWS,
                ("triton.next_power_of_2(n))", "min(32768, triton.next_power_of_2(n)))"),
            ),
            "32768",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(LAUNCHED_ROWS, ("    rows[", "    if n > 4096:\n        return x\n    rows[")),
            why="longer rows take another way",
        ),
        NearMiss(
            vary(LAUNCHED_ROWS, ("_of_2(n))", "_of_2(n), num_warps=8 if n > 2048 else 4)")),
            why="the launch says how many warps",
        ),
        NearMiss(
            vary(
                LAUNCHED_ROWS,
                ("triton.next_power_of_2(n))", "1024)"),
            ),
            why="eight elements a thread",
        ),
        NearMiss(
            vary(
                LAUNCHED_ROWS,
                ("triton.next_power_of_2(n))", "min(4096, triton.next_power_of_2(n)))"),
            ),
            why="at most 32 elements a thread",
        ),
        NearMiss(
            vary(LAUNCHED_ROWS, ("@triton.jit\ndef rows",
                         '@triton.autotune([triton.Config({}, num_warps=w) for w in (4, 8)], '
                         'key=["n"])\n@triton.jit\ndef rows')),
            why="the number of warps is searched",
        ),
    )  # fmt: skip
    seen = (
        Seen("liger-kernel", "liger_kernel/ops/group_norm.py", "_group_norm_forward_kernel", 67),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if facts.kernel.dialect not in self.dialects or facts.contractions:
            return  # operands of a matrix product lie in shared memory
        if material is None or not material.launches or material.searches:
            return
        if any(_warps(launch) for launch in material.launches):
            return
        for launch in material.sites():
            found = next(_large(facts, material, launch), None)
            if found is not None:
                load, text = found
                yield self.finding(
                    subject,
                    f"a tile of {text} elements is worked on by the default number of warps, four, "
                    "whatever its size: long rows spill registers, and nothing chooses the "
                    "number by the size",
                    f"give `{WARPS}` by the size of the tile, or search it",
                    [launch.lines, load],
                    Severity.NOTE,
                )
                return


def _warps(launch: LaunchRecord) -> bool:
    """Whether a launch says how many warps, itself, by a search or by a heuristic."""
    named = {name for name, _ in launch.kernel.hints}
    rules = {name for name, _ in launch.kernel.heuristics}
    return WARPS in named | rules or launch.kernel.tuner is not None


def _large(facts: Facts, material: Material, launch: LaunchRecord) -> Iterator[tuple[Access, str]]:
    """Loads of large tiles, with the number of their elements as text."""
    given = dict(launch.args)
    stored = {extent for store in facts.stores for extent in facts.types.shape(store.value)}
    for load in facts.loads:
        known, grows = 1, ""
        for extent in facts.types.shape(load.value):
            value = int(extent) if extent.isdigit() else given.get(extent)
            size = _most(value)
            known *= size or 1
            if size is None and (
                grows or extent not in stored or not _row(material, launch, value)
            ):
                break
            grows = material.names(launch).text(value) if size is None else grows
        else:
            if grows or known >= MANY * THREADS:
                yield load, f"{known} * {grows}" if grows and known > 1 else grows or str(known)


def _most(value: Value) -> int | None:
    """The largest number that a value may be; None when nothing limits it, or it is not known."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, Choice):
        sides = [_most(leaf) for leaf in leaves(value)]
    elif isinstance(value, Expr) and value.op in ("min", "max", "npow2"):
        sides = [_most(arg) for arg in value.args]
    else:
        return None
    known = [side for side in sides if side is not None]
    if isinstance(value, Expr) and value.op == "min":
        return min(known, default=None)
    most = max(known, default=None) if len(known) == len(sides) else None
    rounds = isinstance(value, Expr) and value.op == "npow2"
    return 1 << (most - 1).bit_length() if rounds and most else most


def _row(material: Material, launch: LaunchRecord, value: Value) -> bool:
    """Whether a value is the length of a row of a matrix, rounded up: the last of two axes, or the
    product of all numbers of a shape."""
    size = value.args[0] if isinstance(value, Expr) and value.op == "npow2" else None
    if isinstance(size, Expr) and _short(launch, size):
        return False
    if isinstance(size, Expr) and multiplied(size):
        return True
    if not isinstance(size, Expr) or size.op != "dim":
        return False
    fact = material.machine.tensors.get(size.args[0])
    rank = fact.rank if fact is not None and fact.rank is not None else None
    rank = material.machine.ranks.get(size.args[0]) if rank is None else rank
    return rank == 2 and size.args[1] in (1, -1)


def _short(launch: LaunchRecord, size: Expr) -> bool:
    """Whether a launch is for rows of few elements a thread: longer ones take another branch."""
    for guard in launch.path.guards:
        op = guard.cond.op if guard.holds else OPPOSITE.get(guard.cond.op)
        held = op in ("<", "<=") and guard.cond.args[0] == size
        most = guard.cond.args[1] if held else None
        if isinstance(most, int) and most < MANY * THREADS:
            return True
    return False
