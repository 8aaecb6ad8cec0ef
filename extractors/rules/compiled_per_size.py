"""A number of rows or tiles is a compile-time parameter although nothing needs it there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from extractors.host.conditions import parts
from extractors.host.events import LaunchRecord
from extractors.host.expr import is_sms
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Choice, Expr, Value
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.parameters import parameters_of
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding, Severity
from kb.knowledge import ParameterRole
from kb.ops import READS, OpKind

ROLES = (
    ParameterRole.PROBLEM_SIZE,
    ParameterRole.SCALAR,
    ParameterRole.SCALE,
    ParameterRole.STRIDE,
    ParameterRole.GROUPING,
)
_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def move(x, out, n, ROWS: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, T)
    for row in range(tl.program_id(0), ROWS, tl.num_programs(0)):
        v = tl.load(x + row.to(tl.int64) * n + at, mask=at < n, other=0.0)
        tl.store(out + row.to(tl.int64) * n + at, v, mask=at < n)

def run(x):
    rows, n = x.shape
    out = torch.empty_like(x)
    move[(min(528, rows),)](x, out, n, rows, 1024)
    return out
"""
)
_TILES = (
    SOFTMAX
    + """
import torch

def run(x):
    out = torch.empty_like(x)
    ct.launch(None, (min(528, x.shape[0]), 1, 1), soft, (out, x, x.shape[0], 1024))
    return out
"""
)


_AGAIN = (
    _ROWS
    + """
def other(x):
    return x.shape[2]
"""
)


_TURNED = (
    POINTER
    + """
import torch
@triton.jit
def turn(q, n, SEQ: tl.constexpr, H: tl.constexpr, D: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    batch, at = pid // SEQ, pid % SEQ
    lane = tl.arange(0, H)[:, None] * D + tl.arange(0, D)[None, :]
    place = q + (batch * SEQ + at) * n + lane
    tl.store(place, -tl.load(place, mask=lane < n, other=0.0), mask=lane < n)

def run(q):
    b, s, h, d = q.shape
    turn[(b * s,)](q, h * d, s, triton.next_power_of_2(h), triton.next_power_of_2(d))
    return q
"""
)


_SHIFTED = vary(
    _TURNED,
    ("n, SEQ: tl.constexpr, H: tl.constexpr, D", "n, L: tl.constexpr, T"),
    ("    pid = tl.program_id(0).to(tl.int64)\n    batch, at = pid // SEQ, pid % SEQ\n",
     "    at = (tl.program_id(0) * (L + 1) + tl.program_id(1)).to(tl.int64)\n"),
    ("tl.arange(0, H)[:, None] * D + tl.arange(0, D)[None, :]", "tl.arange(0, T)"),
    ("(batch * SEQ + at)", "at"), ("b, s, h, d", "b, s, n"), ("(b * s,)", "(b, s - 1)"),
    ("h * d, s, triton.next_power_of_2(h), triton.next_power_of_2(d)",
     "n, s - 1, triton.next_power_of_2(n)"),
)  # fmt: skip


_LAST = (("min(528, rows)", "min(528, n)"), ("x, out, n, rows,", "x, out, rows, n,"))


class CompiledPerSize(Rule):
    """A compile-time parameter follows a size that the number of programs follows too, and the
    kernel only computes or compares with it; or it is the batch, or the length of sequences whose
    heads are a tile."""

    name = "compiled-per-size"
    matches = (
        Case(_ROWS, "`ROWS`"),
        Case(_TILES, "`ROWS`"),
        Case(
            vary(
                _ROWS,
                ("        tl.store", "        if tl.max(v, axis=0) > 0.0:\n            tl.store"),
            ),
            "`ROWS`",
        ),
        Case(
            vary(
                _ROWS,
                (
                    "rows, n = x.shape",
                    "n = x.shape[1]\n    rows = x.shape[0] if n > 8 else x.shape[2]",
                ),
            ),
            "`ROWS`",
        ),
        Case(_TURNED, "`SEQ`"),
        Case(_SHIFTED, "`L`"),
        Case(
            vary(
                _TURNED,
                ("(q, h * d, s,", "(q, h * d, b,"),
                ("pid // SEQ, pid % SEQ", "pid % SEQ, pid // SEQ"),
                ("(batch * SEQ + at)", "(at * SEQ + batch)"),
            ),
            "`SEQ`",
        ),
    )
    near_misses = (
        NearMiss(vary(_SHIFTED, ("s - 1", "s"), ("(L + 1)", "L")), why="heads, perhaps"),
        NearMiss(
            vary(
                _TURNED,
                ("(b * s,)", "(b * h,)"),
                ("(q, h * d, s,", "(q, s * d, h,"),
                ("next_power_of_2(h)", "cdiv(128, d)"),
            ),
            why="heads, of which a model has one number",
        ),
        NearMiss(
            vary(
                _TURNED,
                ("(b * s,)", "(b * h, s // 8)"),
                ("(q, h * d, s,", "(q, s * d, h,"),
                ("next_power_of_2(h)", "next_power_of_2(s)"),
            ),
            why="heads beside sequences, whose tiles the grid counts",
        ),
        NearMiss(
            vary(_TURNED, ("    lane = tl", "    if SEQ > 64:\n        at += 1\n    lane = tl")),
            why="a branch is compiled by it",
        ),
        NearMiss(
            vary(_TURNED, ("    turn[", "    s = 64\n    turn[")), why="the host passes a constant"
        ),
        NearMiss(
            vary(_ROWS, ("ROWS: tl.constexpr", "ROWS")), why="it is no compile-time parameter"
        ),
        NearMiss(
            vary(_ROWS, *_LAST),
            why="the last axis is a size of the model, which tiles of the grid may share",
        ),
        NearMiss(
            vary(_AGAIN, *_LAST),
            why="the last axis of the argument of that function",
        ),
        NearMiss(
            vary(_ROWS, ("min(528, rows)", "528")), why="the number of programs does not follow it"
        ),
        NearMiss(
            vary(
                _ROWS, ("n, ROWS: tl.constexpr", "ROWS, n: tl.constexpr"), ("n, rows,", "rows, n,")
            ),
            why="a row length, which tiles are masked by, is a size of the model",
        ),
        NearMiss(
            vary(
                _ROWS, ("    at = tl", "    if ROWS > 64:\n        tl.debug_barrier()\n    at = tl")
            ),
            why="a branch is compiled by it",
        ),
    )
    seen = (
        Seen("tilegym", "tilegym/ops/cutile/softmax.py", "_softmax_kernel", 33),
        Seen("liger-kernel", "liger_kernel/ops/layer_norm.py", "_layer_norm_backward_kernel", 108),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if material is None:
            return
        free = {
            fact.name
            for fact in parameters_of(facts)
            if fact.kind == "constexpr"
            and fact.role in ROLES
            and ends_work(facts, fact.name)
            and not needed(facts, fact.name)
        }
        told: set[str] = set()
        for launch in material.launches:
            rows = set(counted(launch.grid))
            for name, value in launch.args:
                if name in told or name not in facts.constexprs or not facts.graph.uses.get(name):
                    continue
                if (name in free and shares_work(material, launch, value, rows)) or (
                    _of_run(material, launch, value) and not _compiles(facts, name)
                ):
                    told.add(name)
                    text = material.names(launch).text(value)
                    yield self.finding(
                        subject,
                        f"`{name}` is a compile-time parameter that is given {text[:80]}, a size "
                        "of the work that the grid follows: every value of it is compiled anew, "
                        "and nothing in the kernel needs it at compile time",
                        f"make `{name}` a run-time parameter",
                        facts.declared(name),
                        Severity.NOTE,
                    )


def shares_work(
    material: Material, launch: LaunchRecord, value: Value, rows: Set[Expr] | None = None
) -> bool:
    """Whether a value counts rows or tiles that the grid follows, or shares them out."""
    sizes = leaves(value)
    rows = set(counted(launch.grid)) if rows is None else rows
    followed = all(one in rows for one in sizes)
    return (followed and not all(innermost(material, one) for one in sizes)) or _shared(value)


def _of_run(material: Material, launch: LaunchRecord, value: Value) -> bool:
    """Whether a value is a number of rows that the grid has one program for each of: the batch, the
    first of two axes or more; the length of sequences, one more or less than the middle axis of
    three beside the batch, for nobody counts heads so; or a middle one of four that one axis of the
    grid has together with the batch: the other, the heads, is rounded up to a tile."""
    if isinstance(value, Expr) and value.op in ("-", "+") and isinstance(value.args[1], int):
        rows = _multiplied(launch.grid, whole=True)
        return _counts_rows(material, launch, value.args[0], value, rows)
    return _counts_rows(material, launch, value, value, _multiplied(launch.grid))


def _counts_rows(
    material: Material, launch: LaunchRecord, value: Value, part: Value, rows: list[list[Expr]]
) -> bool:
    if not isinstance(value, Expr) or value.op != "dim":
        return False
    array, axis = value.args
    mine = next((row for row in rows if part in row), None)
    rank = _rank(material, array) or 0
    if mine is None or not isinstance(axis, int):
        return False
    if axis == 0 or (rank == 3 and axis == 1 and part is not value):
        batch = Expr("dim", (array, 0))
        return rank > 1 and (axis == 0 or any(batch in row for row in rows))
    if rank != 4 or axis not in (1, 2):
        return False
    heads = Expr("dim", (array, 3 - axis))
    tiles = [arg for _, arg in launch.args if isinstance(arg, Expr) and arg.op in ("npow2", "max")]
    rounded = Expr("npow2", (heads,))
    grid = launch.grid if isinstance(launch.grid, tuple) else (launch.grid,)
    counted = any(heads in parts(axis) for axis in grid)
    return (
        Expr("dim", (array, 0)) in mine
        and not counted
        and any(rounded in (tile, *tile.args) for tile in tiles)
    )


def _multiplied(grid: Value, *, whole: bool = False) -> list[list[Expr]]:
    """For each axis of a grid the extents that it has one program each for; `whole` takes sums as
    they stand, too."""
    axes = grid if isinstance(grid, tuple) else (grid,)
    found = []
    for axis in axes:
        pending, row = [axis], []
        for part in pending:
            if isinstance(part, Choice):
                pending.extend((part.then, part.other))
            elif isinstance(part, Expr) and part.op == "*":
                pending.extend(part.args)
            elif isinstance(part, Expr) and (part.op == "dim" or (whole and part.op in ("-", "+"))):
                row.append(part)
        found.append(row)
    return found


def _rank(material: Material, array: Value) -> int | None:
    fact = material.machine.tensors.get(array)
    said = material.machine.ranks.get(array)
    return fact.rank if fact is not None and fact.rank is not None else said


def innermost(material: Material, extent: Value) -> bool:
    """Whether an extent is of the last axis of its array: the length of rows."""
    if not isinstance(extent, Expr) or extent.op != "dim":
        return False
    rank = _rank(material, extent.args[0])
    return extent.args[1] == -1 or (rank is not None and extent.args[1] == rank - 1)


def counted(grid: Value) -> Iterator[Expr]:
    """Extents that a grid has programs for: as they stand, in tiles, or at most so many."""
    if isinstance(grid, tuple):
        for part in grid:
            yield from counted(part)
    elif isinstance(grid, Choice):
        yield from counted(grid.then)
        yield from counted(grid.other)
    elif isinstance(grid, Expr) and grid.op == "dim":
        if grid.args[1] != -1:
            yield grid
    elif isinstance(grid, Expr) and grid.op in ("min", "*"):
        for part in grid.args:
            yield from counted(part)
    elif isinstance(grid, Expr) and grid.op == "cdiv":
        yield from counted(grid.args[0])


def _shared(value: Value) -> bool:
    """Whether a value shares extents out to the multiprocessors."""
    found = list(parts(value))
    if any(part.op == "npow2" for part in found):
        return False  # few values, and tiles are cut by them
    divided = any(part.op in ("cdiv", "//", "/") for part in found)
    return divided and any(part.op == "dim" for part in found) and any(map(is_sms, found))


def ends_work(facts: Facts, name: str) -> bool:
    """Whether a parameter is where the work of one block ends: a loop over rows or tiles, one after
    the other. What tiles are cut from, or what multiplies indices, is a size of the model."""
    ends = [end for loop in facts.item_loops for end in (loop.low, loop.high) if end]
    return any(atom.value == name for end in ends for atom in facts.values.expr(end).atoms())


def needed(facts: Facts, name: str) -> bool:
    """Whether a parameter decides what is compiled: a branch, an unrolled loop, a type; or takes
    block indices apart, which is a number of heads and not of rows."""
    graph = facts.graph
    for node in graph.of(OpKind.FLOOR_DIV, OpKind.MOD):
        left, right = (facts.values.expr(value) for value in node.op.inputs[:2])
        if left.has(AtomKind.BLOCK) and any(atom.value == name for atom in right.top()):
            return True
    return _decides(facts, name)


def _compiles(facts: Facts, name: str) -> bool:
    """Whether a parameter is the extent of a tile, or decides what is compiled."""
    return name in facts.tile_extents or _decides(facts, name)


def _decides(facts: Facts, name: str) -> bool:
    graph = facts.graph
    readers = graph.node_set(graph.users(name))
    asking = (OpKind.STATIC_RANGE, OpKind.IF, OpKind.IF_EXPRESSION, OpKind.STATIC_ASSERT)
    return any(
        (value == name or graph.rests_on_any(value, readers)) and _reaches(facts, value, name)
        for node in graph.of(*asking)
        for value in node.op.inputs
    )


def _reaches(facts: Facts, value: str, name: str) -> bool:
    """Whether a value is known at compile time and computed from a parameter."""
    pending, seen = [value], {value}
    for current in pending:
        node = facts.graph.producer(current)
        if current in facts.graph.arguments or (node and node.op.kind in _AT_RUN_TIME):
            return False  # what a round of a loop brings is not known at compile time, either
        for feed in facts.graph.feeds(current):
            if feed not in seen and len(seen) < 200:
                seen.add(feed)
                pending.append(feed)
    given = {p.name for p in facts.kernel.entry.parameters} - facts.constexprs
    return name in seen and not given & seen


_AT_RUN_TIME = READS | {OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.ARANGE}
