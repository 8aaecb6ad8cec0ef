# ruff: noqa: E501
"""Offsets into an array are computed in 32 bits although the host accepts arrays beyond that."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.array_sizes import own_sizes
from extractors.host.device import OF_DEVICE
from extractors.host.events import CheckRecord
from extractors.host.expr import atoms
from extractors.host.facts import Material
from extractors.host.values import Choice, Expr, Unknown, Value
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases_overflow import (
    FLAT,
    LATE,
    MADE,
    PICKED,
    ROWS,
    SCALE,
    STRIDES,
    TILES,
)
from extractors.rules.cases_threads import (
    AFTERWARDS,
    COLUMNS,
    DIVIDED,
    FIELD,
    HEADS,
    HELPED,
    PACKED,
    STARTS,
    WARPS,
)
from kb.analysis import symbolic
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.late_widening import widened_late
from kb.analysis.sums import is_index
from kb.analysis.symbolic import AtomKind
from kb.analysis.thread_offsets import narrow_products
from kb.analysis.widths import (
    Widths,
    items,
    short_products,
)
from kb.evidence import Finding

LARGE = 1 << 30
"""A host check against a number this large is a check of the index range."""

_KNOWN = vary(SCALE, ("sx, n, T", "sx: tl.constexpr, n, T"))
_STACKED = (
    POINTER
    + """
@triton.jit
def stack(x, out, b, t, T: tl.constexpr):
    part, at = tl.program_id(0).to(tl.int64), tl.arange(0, T)
    whole = (b * t).to(tl.int64)
    tl.store(out + part * whole + at, tl.load(x + part * T + at))
"""
)


class IndexOverflow(Rule):
    """A product of a block index and a size or stride, computed in 32 bits, is part of an offset.

    Arrays of more than 2 147 483 647 elements then wrap around: other elements are read or written.
    """

    name = "index-overflow"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(SCALE, "`x`"),
        Case(FLAT, "`out`"),
        Case(LATE, "afterwards"),
        Case(STRIDES, "afterwards"),
        Case(ROWS, "`x`"),
        Case(_KNOWN, "`x`"),
        Case(HELPED, "`out`"),
        Case(WARPS, "`x`"),
        Case(FIELD, "`x`"),
        Case(PACKED, "`out`"),
        Case(DIVIDED, "`x`"),
        Case(AFTERWARDS, "`x`"),
        Case(STARTS, "`x`"),
        Case(vary(PACKED, ("lanes<T>::value", "4")), "`out`"),
        Case(_STACKED, "afterwards"),
        Case(TILES, "`x`"),
        Case(PICKED, "`x`"),
        Case(MADE, "`out`"),
        Case(vary(FIELD, ("blockIdx.x * s.width + i", "(blockIdx.x * s.rows + i) * 64")), "`x`"),
    )
    near_misses = (
        NearMiss(
            vary(MADE, ("torch.empty(m, n)", "torch.empty(m, 8 * table.shape[0])")),
            why="the array was made with another extent",
        ),
        NearMiss(
            vary(_STACKED, ("(b * t).to(tl.int64)", "b.to(tl.int64) * t")),
            why="one of the sizes is widened before it is multiplied",
        ),
        NearMiss(
            vary(DIVIDED, ("blockIdx.x * cols / 4", "(size_t)blockIdx.x * cols / 4")),
            why="the block index is widened before it is multiplied, then divided",
        ),
        NearMiss(
            vary(AFTERWARDS, ("blockIdx.y * rows", "int64_t(blockIdx.y) * rows")),
            why="the block index is widened before it is multiplied",
        ),
        NearMiss(
            vary(STARTS, ("int stride", "Sizes s"), ("first * stride", "first * s.stride")),
            why="nothing is known of the type of a field",
        ),
        NearMiss(
            vary(STARTS, ("int first", "long first"), ("const int* starts", "const long* starts")),
            why="what is loaded has 64 bits",
        ),
        NearMiss(
            vary(
                STARTS,
                ("x[first * stride", "x[(long)blockIdx.y * stride * stride + first * stride"),
                ("out[first * stride", "out[(long)blockIdx.y * stride * stride + first * stride"),
            ),
            why="a place within a part that was found in 64 bits",
        ),
        NearMiss(
            vary(STARTS, ("starts[blockIdx.x]", "starts[blockIdx.x] / stride")),
            why="a row that was counted by the elements before it",
        ),
        NearMiss(HEADS, why="a column of a row that was widened before it was multiplied"),
        NearMiss(COLUMNS, why="the column stays below a number of 32 bits"),
        NearMiss(
            vary(
                STRIDES, ("+ sh *", "+"), ("sx * (tl.program_id(1) // 8)", "n * tl.program_id(1)")
            ),
            why="the number of a row, which is multiplied nowhere, may well fit",
        ),
        NearMiss(
            vary(_KNOWN, ("x.stride(0), n,", "y.stride(0), n,"), ("def run(x):", "def run(x, y):")),
            why="the compile-time stride is that of another array",
        ),
        NearMiss(
            vary(WARPS, ("int row = (", "long row = (long)(")),
            why="the number of the row has 64 bits",
        ),
        NearMiss(
            vary(WARPS, ("row * n + i", "blockIdx.x * blockDim.x + i")),
            why="the threads of a block do not grow with the problem",
        ),
        NearMiss(
            vary(WARPS, ("row * n + i", "row / m * m + i")),
            why="no more than the number of the row",
        ),
        NearMiss(
            vary(FIELD, ("int width;", "long width;")), why="the field of the struct has 64 bits"
        ),
        NearMiss(LAYER_NORM_POINTER, why="the block index is widened before it is multiplied"),
        NearMiss(
            vary(SCALE, ("    m, n", "    assert x.numel() < 2**31\n    m, n")),
            why="the host refuses arrays that large",
        ),
        NearMiss(
            vary(
                FLAT,
                (
                    "ct.scatter(out, at, ct.gather(x, at))",
                    "ct.scatter(out, (at, 0), ct.gather(x, (at, 0)))",
                ),
            ),
            why="the number of a row, beside an index of its own for the column",
        ),
        NearMiss(
            vary(FLAT, ("ct.bid(0) * n", "ct.bid(0).astype(ct.int64) * n")),
            why="the block index is widened before it is multiplied",
        ),
        NearMiss(
            vary(
                STRIDES,
                ("sx * (tl.program_id(1) // 8)", "sx.to(tl.int64) * (tl.program_id(1) // 8)"),
            ),
            why="a stride is widened before it is multiplied",
        ),
        NearMiss(
            vary(ROWS, ("        v = tl", "        row = row.to(tl.int64)\n        v = tl")),
            why="the number of the row is widened before it is multiplied",
        ),
        NearMiss(
            vary(
                ROWS,
                ("sx, m, n, T", "sx, n, m: tl.constexpr, T"),
                ("x.stride(0), m, n,", "x.stride(0), n, 64,"),
            ),
            why="the number of rows is a compile-time number",
        ),
        NearMiss(
            vary(LATE, ("tl.program_id(0) * T", "tl.program_id(0).to(tl.int64) * T")),
            why="the block index is widened before it is multiplied",
        ),
        NearMiss(
            vary(LATE, ("x + far", "x + far * 4"), ("out + far", "out + far * 4")),
            why="a row that fits is widened before it is multiplied",
        ),
    )

    seen = (
        Seen("flag-gems", "flag_gems/ops/_safe_softmax.py", "_safe_softmax_kernel", 19),
        Seen(
            "flag-gems",
            "flag_gems/experimental_ops/replication_pad2d.py",
            "replication_pad2d_kernel",
            26,
        ),
        Seen("tilegym", "tilegym/ops/triton/rms_norm.py", "_rms_norm_kernel", 80),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        if limited(subject.host.material):
            return
        facts = subject.facts
        found, arrays = short_offsets(subject)
        late = [node for node in widened_late(facts, Widths(facts)) if node not in found]
        if late and not found:
            yield self.finding(
                subject,
                "an offset is computed in 32 bits and widened to 64 only afterwards: past "
                "2147483647 elements it has wrapped around before it is widened",
                "widen the block index before it is multiplied",
                late,
            )
        if found:
            factors = ([facts.values.expr(v) for v in node.op.inputs[:2]] for node in found)
            text = min((" * ".join(f"({one})" for one in pair) for pair in factors), key=len)
            text = f" ({text})" if len(text) <= 100 else ""  # the lines point to longer ones
            unread = subject.host.material is None
            asked = "no host code was followed that keeps out" if unread else "the host accepts"
            yield self.finding(
                subject,
                f"offsets into {', '.join(f'`{one}`' for one in arrays)} are computed in 32 bits{text}; {asked} "
                "arrays of more than 2147483647 elements, where they wrap around",
                "widen the block index to 64 bits before it is multiplied, or check the number of "
                "elements on the host",
                found,
            )


def short_offsets(subject: Subject) -> tuple[list[Node], list[str]]:
    """Products in offsets that are computed in 32 bits although they grow with the problem, and the
    arrays that they are offsets into."""
    facts, widths = subject.facts, Widths(subject.facts)
    found: dict[Node, None] = {}
    arrays: dict[str, None] = {}
    arrays_read = {access.array for access in facts.accesses if access.array is not None}
    own = own_sizes(subject.host.material, facts.constexprs, arrays_read)
    for access in facts.accesses:
        if access.array is None or _single(facts, access):
            continue
        if len(access.index) > 1:
            continue  # each axis has its own index: the number of a row fits
        if is_index(facts, access.node):
            continue  # a table of indices: arrays of that many rows hold far more elements
        products = [
            node
            for node in short_products(facts, widths, access, own.get(access.array, frozenset()))
            if grows_with_work(subject, facts.values.expr(node.result))
        ]
        products += [one for one in narrow_products(facts, widths, access) if not products]
        found.update(dict.fromkeys(products))
        if products:
            arrays[access.array] = None
    return list(found), list(arrays)


def _single(facts: Facts, access: Access) -> bool:
    """Whether a block reads or writes one element: lanes of a helper may lie in the index alone."""
    lanes = facts.of_threads and any(index.has(AtomKind.LANE) for index in access.index)
    return not lanes and all(extent == "1" for extent in facts.types.shape(access.value))


def grows_with_work(subject: Subject, product: symbolic.Expr) -> bool:
    """Whether the number of blocks that a product counts grows with the problem: a grid of one
    block per multiprocessor does not."""
    material = subject.host.material
    if items(subject.facts, product):
        return True
    axes = {a.axis for a in product.atoms() if a.kind is AtomKind.BLOCK}
    if material is None or not material.launches:
        return True
    for launch in material.launches:
        grid = launch.grid if isinstance(launch.grid, tuple) else (launch.grid,)
        for axis in axes:
            if axis >= len(grid) or _of_problem(grid[axis]):
                return True
    return False


def _of_problem(value: Value) -> bool:
    if isinstance(value, Unknown):
        return True
    sizes = ("dim", "shape", "rank", "stride", "tensor")
    return any(
        atom.op in sizes or (atom.op == "sym" and not str(atom.args[0]).startswith(OF_DEVICE))
        for atom in atoms(value)
    )


def limited(material: Material | None) -> bool:
    """Whether the host looks at the range of 32 bits anywhere on the way to a launch."""
    if material is None:
        return False
    rows = {id(events): events for events in map(material.of_root, material.launches)}
    looked_at = [e.cond for row in rows.values() for e in row if isinstance(e, CheckRecord)]
    for launch in material.launches:
        looked_at += [guard.cond for guard in launch.path.guards]
        looked_at += [value for _, value in launch.args]
    return any(map(_large, {id(value): value for value in looked_at}.values()))


def _large(value: Value) -> bool:
    """Whether a value holds a number of the size of the 32-bit range."""
    pending, count = [value], 0
    while pending and count < 2000:
        item = pending.pop()
        count += 1
        if isinstance(item, int) and not isinstance(item, bool) and item >= LARGE:
            return True
        if isinstance(item, Expr):
            pending.extend(item.args)
        elif isinstance(item, Choice):
            pending.extend((item.cond, item.then, item.other))
        elif isinstance(item, tuple):
            pending.extend(item)
    return False
