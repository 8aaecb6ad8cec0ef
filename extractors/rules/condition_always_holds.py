"""A comparison of a position with a bound comes out the same whatever the sizes are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis import symbolic as s
from kb.analysis.certain import settled
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def move(x, out, m, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=(at < T) & (at < n), other=0.0)
    tl.store(out + row * n + at, v, mask=at < n)

def run(x):
    m, n = x.shape
    out = torch.empty_like(x)
    move[(m,)](x, out, m, n, triton.next_power_of_2(n))
    return out
"""
)
_EXACT = vary(_ROWS, ("(at < T) & (at < n)", "at < n"),
              ("    at = tl", "    if row >= m:\n        return\n    at = tl"))  # fmt: skip
_WHOLE = vary(_ROWS, ("(at < T) & (at < n)", "at < n"), ("triton.next_power_of_2(n))", "n)"))
_TILES = (
    TILE
    + """
@ct.kernel
def move(x, out, n: int, T: Int):
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    v = ct.where(at < T, ct.gather(x, (row, at)), 0.0)
    ct.scatter(out, (row, at), v)
"""
)
_THREADS = """
__global__ void twice(float* out, const float* x, int rows, int cols) {
  int row = blockIdx.x;
  if (row >= rows) return;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    out[(size_t)row * cols + i] = 2.0f * x[(size_t)row * cols + i];
  }
}
void run(float* out, const float* x, int rows, int cols) {
  twice<<<rows, 256>>>(out, x, rows, cols);
}
"""


_OF_TENSOR = vary(
    _THREADS,
    ("void run(float* out, const float* x, int rows, int cols)",
     "void run(torch::Tensor out, torch::Tensor x)"),
    ("  twice<<<rows, 256>>>(out, x, rows, cols);",
     "  const int64_t blocks = x.size(0);\n  const int64_t count = x.size(0);\n"
     "  twice<<<blocks, 256>>>(out.data_ptr<float>(), x.data_ptr<float>(), count, x.size(1));"),
)  # fmt: skip


class ConditionAlwaysHolds(Rule):
    """Lanes are compared with their own extent, a block index with the size of the grid, a counter
    with the bound of its loop: the mask or branch that asks for it takes nothing out."""

    name = "condition-always-holds"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_THREADS, "never holds"),
        Case(_OF_TENSOR, "never holds"),
        Case(_ROWS, "always hold"),
        Case(_EXACT, "never hold"),
        Case(_WHOLE, "always hold"),
        Case(_TILES, "always hold"),
        Case(vary(_ROWS, ("(at < T)", "(row >= 0)")), "always hold"),
    )
    near_misses = (
        NearMiss(
            vary(_THREADS, ("<<<rows, 256>>>", "<<<(rows + 3) / 4 * 4, 256>>>")),
            why="the grid is rounded up",
        ),
        NearMiss(
            vary(_THREADS, ("= blockIdx.x;", "= blockIdx.x * blockDim.y + threadIdx.y;")),
            why="the rows of several threads",
        ),
        NearMiss(
            vary(_THREADS, ("x, rows, cols);", "x, rows - 1, cols);")), why="another number"
        ),
        NearMiss(
            vary(_OF_TENSOR, ("count = x.size(0)", "count = out.size(0)")), why="another extent"
        ),
        NearMiss(
            vary(_ROWS, ("(at < T) & (at < n)", "at < n")),
            why="the tile is the next power of two, which may be longer",
        ),
        NearMiss(
            vary(_EXACT, ("move[(m,)]", "move[(triton.cdiv(m, 4) * 4,)]")),
            why="the grid is rounded up",
        ),
        NearMiss(
            vary(_WHOLE, ("    return out\n",
                          "    move[(m,)](x, out, m, n, 1024)\n    return out\n")),
            why="another launch gives another tile",
        ),
        NearMiss(
            vary(_TILES, ("at < T", "at < n")), why="nothing ties the tile to the bound"
        ),
        NearMiss(
            vary(_WHOLE, ("tl.arange(0, T)", "tl.arange(0, triton.next_power_of_2(T))"),
                 ("at < n", "at < T")),
            why="the kernel rounds the extent up",
        ),
    )  # fmt: skip
    seen = (Seen("fla-core", "fla/ops/delta_rule/wy_fast.py", "recompute_w_u_fwd_kernel", 68),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts, material = subject.facts, subject.host.material
        always: list[Node] = []
        never: list[Node] = []
        for node, holds in _of_blocks(subject) if facts.of_threads else _of_tiles(facts, material):
            (always if holds else never).append(node)
        for nodes, word in ((always, "always"), (never, "never")):
            if nodes:
                several = len({node.lines for node in nodes}) > 1
                yield self.finding(
                    subject,
                    f"{'comparisons' if several else 'a comparison'} of positions that {word} "
                    f"{'hold' if several else 'holds'}, whatever the sizes are: the mask or branch "
                    "takes nothing out",
                    "leave the comparison out; if a bound was meant to be checked, compare with it",
                    nodes,
                    Severity.NOTE,
                )


def _of_tiles(facts: Facts, material: Material | None) -> Iterable[tuple[Node, bool]]:
    hosted = _Hosted(material)
    return settled(facts, hosted.known, hosted.blocks)


def _of_blocks(subject: Subject) -> Iterator[tuple[Node, bool]]:
    """Comparisons of the block index of a thread with as many blocks as every launch of the file
    has along that axis, and whether they hold."""
    facts, sizes = subject.facts, dict(enumerate(subject.host.counted))
    for node in facts.graph.of(OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE):
        left, right = (facts.values.expr(value).atom for value in node.op.inputs[:2])
        turned = node.op.kind in (OpKind.GT, OpKind.LE)
        block, size = (right, left) if turned else (left, right)
        if block is None or size is None or block.kind is not AtomKind.BLOCK:
            continue
        same = sizes.get(block.axis) == size.value
        if size.kind is AtomKind.PARAMETER and (
            same or (block.axis, size.value) in subject.host.as_many
        ):
            yield node, node.op.kind in (OpKind.LT, OpKind.GT)


class _Hosted:
    """What every launch says of parameters and of the grid, in the words of the kernel; found at
    the first question."""

    def __init__(self, material: Material | None) -> None:
        self._material = material

    @cached_property
    def launches(self) -> list[LaunchRecord]:
        """Every launch, none when others may launch the kernel, too."""
        known = self._material is not None and self._material.launched_here_only()
        return list(self._material.launches) if self._material is not None and known else []

    @cached_property
    def _same(self) -> dict[str, s.Expr]:
        """Parameters that are always given one number, or what another one before them is given."""
        rows = [dict(launch.args) for launch in self.launches]
        found: dict[str, s.Expr] = {}
        first: dict[tuple[Value, ...], str] = {}
        for name, value in rows[0].items() if rows else ():
            given = tuple(row.get(name) for row in rows)
            if isinstance(value, int) and not isinstance(value, bool):
                if all(one == value for one in given):
                    found[name] = s.number(value)
            elif all(isinstance(one, Expr) and one.op != "call" for one in given):
                if given in first:
                    found[name] = _parameter(first[given])
                first.setdefault(given, name)
        return found

    def known(self, atom: Atom) -> s.Expr | None:
        """What a parameter is."""
        return self._same.get(atom.value) if atom.kind is AtomKind.PARAMETER else None

    def blocks(self, atom: Atom) -> s.Expr | None:
        """How many blocks there are along the axis of a block index, when all launches agree."""
        axis = atom.axis
        found = [_along(launch, axis) for launch in self.launches]
        first = found[0] if found else None
        return first if first is not None and all(one == first for one in found) else None


def _along(launch: LaunchRecord, axis: int) -> s.Expr | None:
    grid = launch.grid if isinstance(launch.grid, tuple) else (launch.grid,)
    return _worded(grid[axis], dict(launch.args)) if axis < len(grid) else s.ONE


def _worded(value: Value, given: dict[str, Value]) -> s.Expr | None:
    """A value of the host in terms of the parameters that are given it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return s.number(value)
    if not isinstance(value, Expr):
        return None
    named = next((name for name, its in given.items() if its == value), None)
    if named is not None:
        return _parameter(named)
    sides = [_worded(arg, given) for arg in value.args] if value.op in _ARITHMETIC else [None]
    if len(sides) != 2 or sides[0] is None or sides[1] is None:
        return None
    return _ARITHMETIC[value.op](sides[0], sides[1])


_ARITHMETIC = {"+": s.add, "-": s.sub, "*": s.mul, "cdiv": s.ceil_div, "//": s.floor_div}


def _parameter(name: str) -> s.Expr:
    return s.of(Atom(name, AtomKind.PARAMETER, value=name))
