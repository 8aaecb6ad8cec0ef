"""Accesses that nothing keeps inside the arrays."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_CHUNKS_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Node
from kb.analysis.values import Values
from kb.evidence import Decision
from kb.ops import OpKind

_OWN = (OpKind.THREAD_ID, OpKind.LANE_ID, OpKind.WARP_ID)
_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_BARE_THREADS = vary(ADD_THREADS, ("if (at < n) ", ""))
_BARE = vary(
    ADD_POINTER,
    (", mask=inside) +", ") +"),
    ("y + at, mask=inside), mask=inside)", "y + at))"),
)


_POINTERS = (Mode.POINTER, Mode.BLOCK_POINTER)
_BLOCKS = (
    POINTER
    + """
@triton.jit
def move(x, out, n, T: tl.constexpr):
    own = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * T,), (T,), (0,))
    to = tl.make_block_ptr(out, (n,), (1,), (tl.program_id(0) * T,), (T,), (0,))
    tl.store(to, tl.load(own))
"""
)


class UnmaskedAccesses(Pattern):
    """No load or store of a tile by pointers has a mask, or by block pointers a bound to check; or
    no thread asks where it is."""

    name = "accesses-without-a-bounds-check"
    axis = "boundary_handling"
    source = "Triton documentation, load: mask"
    matches = (
        Case(_BARE, "none: extents are whole tiles"),
        Case(_BARE_THREADS, "none: extents are whole tiles"),
        Case(_BLOCKS, "none: extents are whole tiles"),
    )
    near_misses = (
        NearMiss(ADD_POINTER, why="every access is masked"),
        NearMiss(vary(ADD_POINTER, (", mask=inside) +", ") +")), why="the others are masked"),
        NearMiss(
            vary(_BLOCKS, ("tl.load(own)", "tl.load(own, boundary_check=(0,))")),
            why="a bound is checked",
        ),
        NearMiss(PRODUCT, why="tiles of a view are kept inside by the view"),
        NearMiss(ADD_THREADS, why="threads outside do nothing"),
        NearMiss(ROW_NORM_CHUNKS_THREADS, why="each thread's loop ends with the row"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            yield from self._of_threads(facts)
            return
        wide = [a for a in facts.accesses if facts.types.shape(a.value)]
        bare = all(a.mode in _POINTERS and _bare(a) for a in wide)
        if wide and bare and any(a.is_store for a in wide):
            yield self.decide(facts, "none: extents are whole tiles", wide)

    def _of_threads(self, facts: Facts) -> Iterable[Decision]:
        """Of threads: places that a thread id moves, where no comparison of an id and no loop that
        starts at the own thread keeps any of them inside."""
        graph = facts.threads
        tests = [n for n in graph.of(*_ORDERED) if graph.roots(n.result, *_OWN)]
        values = facts.thread_values
        loops = [n for n in graph.of(OpKind.RANGE) if _strided(graph, values, n)]
        placed = [
            n
            for n in graph.of(OpKind.LOAD, OpKind.STORE)
            if n.op.attribute("space") != "shared"
            and n.op.operand("mask") is None
            and graph.roots(n.op.operand("pointer"), *_OWN)
        ]
        limited = graph.of(OpKind.MINIMUM, OpKind.CLAMP, OpKind.OPAQUE, OpKind.ASYNC_COPY)
        if not (tests or loops or limited) and any(n.op.kind == OpKind.STORE for n in placed):
            yield self.decide(facts, "none: extents are whole tiles", placed)


def _strided(graph: Graph, values: Values, walked: Node) -> bool:
    """A range from the own thread to an end that all threads share and no number tells."""
    low, high = walked.op.operand("low"), walked.op.operand("high") or ""
    shared = values.expr(high).constant is None and not graph.roots(high, *_OWN)
    return shared and bool(graph.roots(low, *_OWN))


def _bare(access: Access) -> bool:
    return access.mask is None and access.node.op.operand("boundary_check") is None
