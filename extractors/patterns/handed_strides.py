"""Rows of arrays that lie as far apart as the host says: strides handed to a kernel of threads."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.stride_set_shared import compared
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node, field_of
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_COPIED = """__global__ void copy(const float* x, float* out, int n, long down, long far) {
    int row = blockIdx.x;
    for (int at = threadIdx.x; at < n; at += blockDim.x)
        out[row * far + at] = x[row * down + at];
}
"""
_FIELDS = """struct Rows { float* data; long page; long entry; };
__global__ void put(Rows rows, const float* x, const int* table, int n) {
    int at = threadIdx.x;
    float* to = rows.data + table[blockIdx.x] * rows.page + blockIdx.y * rows.entry;
    if (at < n) to[at] = x[blockIdx.x * n + at];
}
"""
_MEASURING = frozenset({OpKind.DIV, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.RANGE,
                        OpKind.STATIC_RANGE, OpKind.MINIMUM, OpKind.MAXIMUM})  # fmt: skip
"""What is done with the extent of an axis, but not with a stride."""


class HandedStrides(Pattern):
    """Two or more numbers that the launch hands in are nothing but the distance of rows."""

    name = "strides-of-rows-handed-in"
    axis = "layout_contract"
    source = "PyTorch documentation, tensor views: stride"
    matches = (Case(_COPIED, "strides as arguments"), Case(_FIELDS, "strides as arguments"))
    near_misses = (
        NearMiss(_COPIED.replace("row * far", "row * down"), why="one number for both arrays"),
        NearMiss(
            _COPIED.replace("row * far", "row * n").replace("row * down", "row * n"),
            why="rows lie one after the other",
        ),
        NearMiss(
            _COPIED.replace("row * far", "row * far * down"),
            why="extents that are multiplied with each other",
        ),
        NearMiss(
            _FIELDS.replace("if (at < n)", "if (at < rows.page && at < rows.entry)"),
            why="positions are held below what is no stride then",
        ),
        NearMiss(ADD_THREADS, why="a flat array has no strides"),
        NearMiss(ROW_NORM_THREADS, why="rows follow each other"),
        NearMiss(PRODUCT_THREADS, why="rows follow each other"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        names, extents = _factors(facts)
        names -= extents
        if len(names) > 1:
            names -= compared(facts) | measured(facts)
        if len(names) > 1:
            where: list[Where] = [*facts.declared(*names), *products(facts, names)]
            yield self.decide(facts, "strides as arguments", where, ", ".join(sorted(names)))


def _factors(facts: Facts) -> tuple[set[str], set[str]]:
    """Parameters of the launch that positions alone are multiplied with in addresses; and those
    that are multiplied with each other."""
    single: set[str] = set()
    several: set[str] = set()
    for access in facts.accesses:
        if access.mode is not Mode.POINTER:
            continue
        for index in access.index:
            for factors, _ in index.terms:
                named = {a.value for a in factors if a.kind is AtomKind.PARAMETER}
                given = named - facts.constexprs
                if len(given) > 1:
                    several |= given
                elif named == given and len(factors) > 1:
                    single |= given
    return single, several


def measured(facts: Facts) -> set[str]:
    """Parameters that are divided by, counted up to, or turned into numbers with a fraction."""
    found: set[str] = set()
    for node in facts.graph.of(*_MEASURING, *CASTS):
        floats = node.op.kind in CASTS and facts.types.dtype(node.result).startswith(("f", "bf"))
        if node.op.kind in _MEASURING or floats:
            for value in node.op.inputs:
                atoms = facts.values.expr(value).atoms()
                found |= {a.value for a in atoms if a.kind is AtomKind.PARAMETER}
    return found


def products(facts: Facts, names: set[str]) -> list[Node]:
    """The products with the strides."""
    through = CASTS | COPIES
    return [
        node
        for node in facts.threads.of(OpKind.MUL)
        if any(
            below in names or field_of(facts.threads, below) in names
            for below in (facts.threads.through(v, through) for v in node.op.inputs)
        )
    ]
