"""Rows of arrays that lie as far apart as the host says: strides handed to a kernel of threads."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.own_code import own
from kb.analysis.record_fields import field_of
from kb.analysis.records_apart import fields_read
from kb.analysis.strides import placed_with, row_strides
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
        names = row_strides(facts) - facts.constexprs
        if len(names) > 1:
            fields = [
                n
                for n in facts.graph.of(OpKind.ATTRIBUTE)
                if own(facts, n.op) and field_of(facts.graph, n.result) in names
            ]
            where: list[Where] = [
                *facts.declared(*names),
                *fields,
                *(op.span.lines for op in fields_read(facts.given, names) if own(facts, op)),
                *placed_with(facts, names),
            ]
            yield self.decide(facts, "strides as arguments", where, ", ".join(sorted(names)))
