"""Arithmetic in the type that the arrays store."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, TILE
from extractors.patterns.cases_rows import ADD_POINTER, COPY, ROW_NORM
from extractors.patterns.cases_rows_pointer import COPY_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, COPY_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.evidence import Decision
from kb.ops import READS, OpKind

_ROTATE = (
    TILE
    + """
@ct.kernel
def turn(x, y, c, s, out, T: Int):
    i = ct.bid(0)
    a = ct.load(x, index=(i,), shape=(T,))
    b = ct.load(y, index=(i,), shape=(T,))
    p = ct.load(c, index=(i,), shape=(T,))
    q = ct.load(s, index=(i,), shape=(T,))
    ct.store(out, index=(i,), tile=a * p - b * q)
"""
)
_ARITHMETIC = (OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA)


_NARROW = frozenset({"f16", "bf16", "f8e4m3", "f8e5m2"})
"""Types in which results are stored and seldom computed."""

_HALVES_THREADS = """#include <cuda_fp16.h>
__global__ void plus(const half* x, const half* y, half* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] + y[at];
}
"""


class StoragePrecision(Pattern):
    """Between load and store there is arithmetic and no cast, reduction or product."""

    name = "compute-in-storage-precision"
    axis = "compute_dtype"
    source = "tilelore catalogue, P69; Micikevicius et al., Mixed Precision Training (2018)"
    matches = (
        Case(_ROTATE, "storage dtype"),
        Case(ADD_POINTER, "storage dtype"),
        Case(_HALVES_THREADS, "storage dtype"),
        Case(ADD_THREADS, "storage dtype"),
    )
    near_misses = (
        NearMiss(COPY, why="nothing is computed"),
        NearMiss(ROW_NORM, why="rows are widened right after the load"),
        NearMiss(PRODUCT, why="the product widens by itself"),
        NearMiss(COPY_POINTER, why="nothing is computed"),
        NearMiss(COPY_THREADS, why="nothing is computed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or facts.reductions:
            return
        found: list[Node] = []
        for store in facts.stores:
            steps = self._steps(facts, store.value)
            if any(n.op.kind in CASTS for n in steps):
                return
            found += [n for n in steps if self._computes(facts, n)]
        if found:
            yield self.decide(facts, "storage dtype", dict.fromkeys(found))

    def _steps(self, facts: Facts, value: str) -> list[Node]:
        """Operations between the loads and a stored value."""
        above = facts.graph.upstream(value, lambda n: n.op.kind in READS)
        return [n for n in above if facts.feeding(n.result)]

    def _computes(self, facts: Facts, node: Node) -> bool:
        """Arithmetic whose result has the type of an array."""
        dtype = facts.types.dtype(node.result)
        stored = dtype.startswith("dtypeof") or dtype in _NARROW or self._as_stored(facts, dtype)
        return node.op.kind in _ARITHMETIC and stored

    def _as_stored(self, facts: Facts, dtype: str) -> bool:
        """Whether every pointer of the kernel says that what lies behind it is of this type of
        float."""
        floats = {
            kind
            for access in facts.accesses
            if (kind := facts.types.dtype(access.value)).startswith("f")
        }
        return facts.of_threads and floats == {dtype}
