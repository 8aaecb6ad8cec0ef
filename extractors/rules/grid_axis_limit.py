"""The second or third axis of the grid counts rows, and may have at most 65535 blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.conditions import parts
from extractors.host.derived import grid_lines
from extractors.host.events import CheckRecord, LaunchRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.graph import Node
from kb.evidence import Finding, Severity
from kb.ops import OpKind

LIMIT = 65535
"""Blocks along the second and third axis of a grid (CUDA C++ Programming Guide, technical
specifications per compute capability)."""

_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def move(x, out, n, T: tl.constexpr):
    at = tl.program_id(1).to(tl.int64) * n + tl.program_id(0) * T + tl.arange(0, T)
    inside = tl.program_id(0) * T + tl.arange(0, T) < n
    tl.store(out + at, tl.load(x + at, mask=inside, other=0.0), mask=inside)

def run(x):
    m, n = x.shape
    out = torch.empty_like(x)
    move[(triton.cdiv(n, 128), m)](x, out, n, 128)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def move(x, out, T: Int):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, index=(j, i), tile=ct.load(x, index=(j, i), shape=(1, T)))

def run(x):
    n = x.shape[-1]
    m = x.numel() // n
    out = torch.empty_like(x)
    ct.launch(None, (ct.cdiv(n, 128), m, 1), move, (x, out, 128))
    return out
"""
)


_HEADS = vary(
    _ROWS,
    ("m, n = x.shape", "b, h, n = x.shape"),
    ("128), m)", "128), b * h)"),
)
_INNER = vary(
    _ROWS,
    ("m, n = x.shape", "n = x.shape[0]\n    m = x.numel() // n // 2"),
)


class GridAxisLimit(Rule):
    """The second or third axis of the grid has a block for each row of a matrix, or for each pair
    of places along two axes of an array, and nothing on the host limits their number: above 65535
    the launch fails."""

    name = "grid-axis-limit"
    matches = (
        Case(_ROWS, "axis 1"),
        Case(_TILES, "axis 1"),
        Case(_HEADS, "x.shape[0] * x.shape[1] blocks"),
        Case(_INNER, "axis 1"),
    )
    near_misses = (
        NearMiss(
            vary(_ROWS, ("(triton.cdiv(n, 128), m)", "(m, triton.cdiv(n, 128))")),
            why="the first axis has room for 2147483647 blocks",
        ),
        NearMiss(
            vary(_ROWS, ("    out = torch", "    assert m <= 65535\n    out = torch")),
            why="the host refuses more",
        ),
        NearMiss(
            vary(_ROWS, ("m, n = x.shape", "m, h, n = x.shape")),
            why="the first of three axes, which may be small",
        ),
        NearMiss(
            vary(_HEADS, ("b * h)", "b * 4)")), why="one axis, which may be small, a few times"
        ),
        NearMiss(vary(_ROWS, ("128), m)", "128), min(m, 1024))")), why="at most a number"),
    )
    seen = (Seen("liger-kernel", "liger_kernel/ops/dyt.py", "_dyt_fwd_kernel", 37),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for launch in material.sites() if material is not None else ():
            grid = launch.grid if isinstance(launch.grid, tuple) else ()
            for axis, part in list(enumerate(grid))[1:]:
                if material is None or not _rows(material, part) or _limited(material, launch):
                    continue
                text = material.names(launch).text(part)
                yield self.finding(
                    subject,
                    f"axis {axis} of the grid has {text[:80]} blocks: more than {LIMIT} cannot be "
                    "launched, and the host does not check it",
                    "put the rows on the first axis, which takes 2147483647 blocks, or check it",
                    [launch.lines, *grid_lines(material), *_asked(subject, axis)],
                    Severity.NOTE,
                )
                return


def _asked(subject: Subject, axis: int) -> list[Node]:
    """Where the kernel asks which block it is along an axis."""
    facts = subject.facts
    blocks = facts.graph.of(OpKind.BLOCK_ID)
    return [node for node in blocks if (facts.number(node.op.operand("axis") or "") or 0) == axis]


def _rows(material: Material, value: Value) -> bool:
    """Whether every alternative of a value is the number of rows of a matrix: the first of two
    extents, the elements of an array over the length of a row; or a product of two extents."""
    found = leaves(value)
    return bool(found) and all(
        _of_matrix(material, leaf) or of_elements(leaf) or len(set(_extents(leaf))) > 1
        for leaf in found
    )


def of_elements(value: Value) -> bool:
    """The elements of an array, over one of its extents or several."""
    if not isinstance(value, Expr) or not value.args:
        return False
    if value.op == "//":
        return of_elements(value.args[0])
    asked = value.args[0]
    return isinstance(asked, Expr) and asked.op == "attr" and asked.args[1] == "numel"


def _extents(value: Value) -> Iterator[Value]:
    """The extents, or numbers of tiles, that a product multiplies."""
    if isinstance(value, Expr) and value.op == "*":
        for factor in value.args:
            yield from _extents(factor)
    elif isinstance(value, Expr) and (
        value.op == "dim" or (value.op == "cdiv" and any(p.op == "dim" for p in parts(value)))
    ):
        yield value


def _of_matrix(material: Material, value: Value) -> bool:
    if not isinstance(value, Expr) or value.op != "dim" or value.args[1] not in (0, -2):
        return False
    fact = material.machine.tensors.get(value.args[0])
    rank = fact.rank if fact is not None and fact.rank is not None else None
    return (material.machine.ranks.get(value.args[0]) if rank is None else rank) == 2


def _limited(material: Material, launch: LaunchRecord) -> bool:
    """Whether a check or a branch on the way to the launch speaks of the limit."""
    checks = [e.cond for e in material.of_root(launch) if isinstance(e, CheckRecord)]
    conditions = [*checks, *(guard.cond for guard in launch.path.guards)]
    return any(
        arg in (LIMIT, LIMIT + 1) for cond in conditions for one in parts(cond) for arg in one.args
    )
