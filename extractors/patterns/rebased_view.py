"""A segment of an array is made a view of its own."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import COPY
from extractors.patterns.cases_rows_pointer import COPY_POINTER
from extractors.patterns.cases_rows_threads import COPY_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import READS, OpKind

_SLICED = vary(
    COPY,
    ("def copy(x, out, T: Int):", "def copy(x, out, ends, T: Int):"),
    (
        "ct.load(x, index",
        "ct.load(x.slice(axis=0, start=ct.gather(ends, 0).item(), stop=ct.gather(ends, 1).item()), index",  # noqa: E501
    ),
)


_BASED = (
    POINTER
    + """
@triton.jit
def copy(x, out, ends, n, T: tl.constexpr):
    first = tl.load(ends + tl.program_id(1))
    last = tl.load(ends + tl.program_id(1) + 1)
    own = tl.make_tensor_descriptor(x + first, shape=[last - first], strides=[1], block_shape=[T])
    to = tl.make_tensor_descriptor(out + first, shape=[last - first], strides=[1], block_shape=[T])
    to.store([tl.program_id(0) * T], own.load([tl.program_id(0) * T]))
"""
)


class RebasedView(Pattern):
    """An array is cut at loaded or computed bounds before tiles are taken from it: a slice of it,
    or a descriptor whose base is moved by a loaded number."""

    name = "rebased-sub-array-view-for-ragged-segments"
    axis = "ragged_access"
    source = "cuTile documentation, Array.slice"
    matches = (
        Case(_SLICED, "array slice view with runtime start/stop"),
        Case(_BASED, "array slice view with runtime start/stop"),
    )
    near_misses = (
        NearMiss(
            vary(
                _BASED,
                ("(x + first, shape", "(tl.load(x + tl.program_id(1)), shape"),
                ("(out + first, shape", "(tl.load(out + tl.program_id(1)), shape"),
            ),
            why="each problem has an array of its own",
        ),
        NearMiss(COPY, why="the whole array is addressed"),
        NearMiss(
            vary(COPY, ("ct.load(x, index", "ct.load(x.slice(axis=0, start=0, stop=T), index")),
            why="the part is the same for every launch",
        ),
        NearMiss(PRODUCT, why="the whole array is addressed"),
        NearMiss(COPY_POINTER, why="the whole array is addressed"),
        NearMiss(PRODUCT_DESCRIPTOR, why="the descriptor covers the whole array"),
        NearMiss(COPY_THREADS, why="the whole array is addressed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        cut = [n for n in facts.graph.of(OpKind.ARRAY_SLICE) if self._found(facts, n)]
        cut += [
            node
            for node in facts.graph.of(OpKind.DESCRIPTOR)
            if self._moved(facts, node.op.inputs[0])
        ]
        if cut:
            yield self.decide(facts, "array slice view with runtime start/stop", cut)

    def _found(self, facts: Facts, cut: Node) -> bool:
        """Whether a bound of a slice is known at run time alone."""
        bounds = [v for role, v in cut.op.operands if role in ("start", "stop")]
        return not all(facts.values.compile_time(facts.values.expr(v)) for v in bounds)

    def _moved(self, facts: Facts, base: str) -> bool:
        """True for a pointer that a loaded number is added to; one that is loaded itself stands."""
        pointer = facts.graph.producer(facts.graph.core(base))
        loaded = pointer is not None and pointer.op.kind in READS
        return bool(facts.graph.roots(base, *READS)) and not loaded
