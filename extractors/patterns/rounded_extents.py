"""Extents of a layout that are rounded up to whole tiles: its rows or columns are padded."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.rounded_counts import ENDS, multiples
from kb.analysis.facts import Facts
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import READS, OpKind

_VALUE = "extents rounded up to whole tiles"
_SIZES = (AtomKind.PARAMETER, AtomKind.EXTENT)
_STOPS = (*ENDS, *READS)
_SCALES = """__global__ void scale(const float* x, float* scales, int rows, int cols) {
    int padded = (rows + 127) / 128 * 128;
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) scales[blockIdx.y * padded + row] = fabsf(x[row * cols + blockIdx.y]);
}
"""
_MASKED = _SCALES.replace("(rows + 127) / 128 * 128", "(rows + 127) & -128")
_POINTERS = """__global__ void starts(float** out, float* all, const int* first, int n, int k) {
    int whole = (n + k - 1) / k * k;
    out[threadIdx.x] = all + first[threadIdx.x] * whole;
}
"""


class RoundedExtents(Pattern):
    """A number that the launch hands in is rounded up to a multiple, and the place of an element of
    an array, or an address that is stored, is made of it: it does not only end a loop."""

    name = "extents-rounded-up-to-whole-tiles"
    axis = "tile_padding"
    source = "NVIDIA, cuBLAS, layout of block scaling factors: whole tiles of 128 rows"
    matches = (Case(_SCALES, _VALUE), Case(_MASKED, _VALUE), Case(_POINTERS, _VALUE))
    near_misses = (
        NearMiss(_SCALES.replace("(rows + 127) / 128", "rows / 128"), why="rounded down"),
        NearMiss(_SCALES.replace("/ 128 * 128", "/ 128"), why="tiles are counted"),
        NearMiss(_POINTERS.replace("/ k * k", "/ k * n"), why="another multiple"),
        NearMiss(
            _SCALES.replace("__global__", "template <int rows> __global__").replace(
                "int rows, int", "int"
            ),
            why="a compile-time number",
        ),
        NearMiss(
            _SCALES.replace("if (row < rows)", "for (; row < padded; row += 64)").replace(
                "* padded", "* rows"
            ),
            why="it only ends a loop",
        ),
        NearMiss(
            _SCALES.replace("    int row =", "    extern __shared__ float held[];\n    int row =")
            .replace("scales[blockIdx.y * padded", "scales[blockIdx.y * rows")
            .replace("= fabsf(", "= held[padded + threadIdx.x] * fabsf("),
            why="memory of the block",
        ),
        NearMiss(ADD_THREADS, why="nothing is rounded"),
        NearMiss(PRODUCT, why="nothing is rounded"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        rounded = multiples(facts, lambda extent: _handed(facts, extent))
        if not rounded:
            return
        graph = facts.threads if facts.of_threads else facts.graph
        seen = [a for a in facts.accesses if not facts.shared.place(a.node.op)]
        places = [v for a in seen for v in a.address]
        places += [v for n in graph.of(OpKind.STORE) if (v := n.op.operand("value")) is not None]
        made = graph.made_from(places, rounded, lambda n: n.op.kind in _STOPS)
        if used := [n for n in rounded if n in made]:
            yield self.decide(facts, _VALUE, used)


def _handed(facts: Facts, extent: Expr) -> bool:
    """Whether a number is made of nothing but what the launch hands in, and not of compile-time
    numbers alone, as sizes of shared memory are."""
    atoms = extent.atoms()
    handed = [a.value.partition(".")[0] for a in atoms if a.kind in _SIZES]
    return bool({*handed} - facts.constexprs) and all(
        a.kind in (*_SIZES, AtomKind.FLOOR_DIV) for a in atoms
    )
