"""The elements of an array are counted through in 32 bits."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.conditions import parts
from extractors.host.facts import Material
from extractors.host.values import Expr
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.index_overflow import grows_with_work, limited
from kb.analysis.accesses import Mode
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, Term
from kb.analysis.widths import Widths, short_counts
from kb.evidence import Finding, Severity

_FLAT = (
    POINTER
    + """
import torch
@triton.jit
def twice(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside, other=0.0) * 2.0, mask=inside)

def run(x):
    n = x.numel()
    out = torch.empty_like(x)
    twice[(triton.cdiv(n, 1024),)](x, out, n, 1024)
    return out
"""
)
_GATHERED = (
    TILE
    + """
import torch
@ct.kernel
def twice(x, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, at, ct.gather(x, at) * 2.0)

def run(x):
    out = torch.empty_like(x)
    ct.launch(None, (ct.cdiv(x.numel(), 1024), 1, 1), twice, (x.view(-1), out.view(-1), 1024))
    return out
"""
)


class CountOverflow(Rule):
    """An array is gone through as one row, and the place of an element, a block index times the
    size of a tile, is computed in 32 bits: past 2147483647 elements it wraps around."""

    name = "count-overflow"
    matches = (
        Case(_FLAT, "`x`, `out`"),
        Case(_GATHERED, "`x`, `out`"),
        Case(vary(_FLAT, ("tl.program_id(0) * T", "tl.program_id(0) * T * 4")), "`x`, `out`"),
    )
    near_misses = (
        NearMiss(
            vary(_FLAT, ("tl.program_id(0) * T", "tl.program_id(0).to(tl.int64) * T")),
            why="the block index is widened before it is multiplied",
        ),
        NearMiss(
            vary(_FLAT, ("    n = x.numel()\n", "    n = x.numel()\n    assert n < 2**31\n")),
            why="the host refuses arrays that large",
        ),
        NearMiss(
            vary(_FLAT, ("triton.cdiv(n, 1024),", "256,")), why="the grid does not grow"
        ),
        NearMiss(
            vary(_FLAT, ("n = x.numel()", "n = x.shape[1]")), why="the columns of an array are few"
        ),
        NearMiss(
            vary(
                _FLAT,
                ("def twice(x, out, n,", "def twice(x, out, sx, n,"),
                ("x + at", "x + tl.program_id(1).to(tl.int64) * sx + at"),
                ("out + at", "out + tl.program_id(1).to(tl.int64) * sx + at"),
                ("twice[(triton.cdiv(n, 1024),)](x, out, n,",
                 "twice[(triton.cdiv(n, 1024), 8)](x, out, x.stride(0), n,"),
            ),
            why="the place within a row, and the row is widened",
        ),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/ops/prelu.py", "prelu_kernel", 23),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        found, arrays = short_counted(subject)
        if found:
            names = ", ".join(f"`{one}`" for one in arrays)
            yield self.finding(
                subject,
                f"the elements of {names} are counted in 32 bits, a block index times the size of "
                "a tile: past 2147483647 elements the count wraps around",
                "widen the block index to 64 bits before it is multiplied, or check the number of "
                "elements on the host",
                found,
                Severity.NOTE,
            )


def short_counted(subject: Subject) -> tuple[list[Node], list[str]]:
    """Products of a block index and the size of a tile that count elements in 32 bits, and the
    arrays that are gone through so; none where the host looks at the range."""
    facts = subject.facts
    if facts.of_threads or limited(subject.host.material):
        return [], []
    widths = Widths(facts)
    found: dict[Node, None] = {}
    arrays: dict[str, None] = {}
    for access in facts.accesses:
        one_row = access.mode in (Mode.POINTER, Mode.ELEMENT) and len(access.index) == 1
        if access.array is None or not one_row or not _row(access.index[0].terms):
            continue
        products = [
            node
            for node in short_counts(facts, widths, access)
            if grows_with_work(subject, facts.values.expr(node.result))
            and _many(subject.host.material)
        ]
        found.update(dict.fromkeys(products))
        if products:
            arrays[access.array] = None
    written = any(a.array in arrays for a in facts.stores)
    return (list(found), list(arrays)) if written else ([], [])


def _many(material: Material | None) -> bool:
    """Whether some launch shares out more than one extent: the number of elements of an array, not
    its columns."""
    launches = material.launches if material is not None else ()
    shared = [
        part.args[0] for one in launches for part in parts(one.grid) if part.op in ("cdiv", "//")
    ]
    return not shared or any(not isinstance(one, Expr) or one.op != "dim" for one in shared)


def _row(terms: Iterable[Term]) -> bool:
    """Whether nothing but one block index times a tile, and lanes, make the place."""
    kinds = [[atom.kind for atom in factors] for factors, _ in terms]
    blocks = [one for one in kinds if AtomKind.BLOCK in one]
    lanes = [one for one in kinds if AtomKind.LANE in one]
    return len(blocks) == 1 and bool(lanes) and len(blocks) + len(lanes) == len(kinds)
