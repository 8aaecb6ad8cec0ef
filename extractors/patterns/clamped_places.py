"""Places that are moved into a range at both of its ends before memory is read or written there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, vary
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Graph, Node
from kb.analysis.values import Values
from kb.dtypes import is_float
from kb.evidence import Decision
from kb.ops import ATOMICS, READS, WRITES, OpKind

_THREADS = """__global__ void near(const float* x, const int* at, float* out, int base, int last) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int right = max(min(at[i], last), base);
    out[i] = x[right] * 0.5f;
}
"""
_LANES = (
    POINTER
    + """
@triton.jit
def between(x, at, out, n, T: tl.constexpr):
    i = tl.program_id(0) * T + tl.arange(0, T)
    right = tl.minimum(tl.maximum(tl.load(at + i), 0), n - 1)
    tl.store(out + i, tl.load(x + right) * 0.5)
"""
)
_MOVED = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.POINTER_CAST, OpKind.SELECT,
                    OpKind.EXPAND_DIMS, OpKind.BROADCAST_TO}) | CASTS | COPIES  # fmt: skip
_OTHER = {OpKind.MINIMUM: OpKind.MAXIMUM, OpKind.MAXIMUM: OpKind.MINIMUM}


class ClampedPlaces(Pattern):
    """The larger of a bound and of the smaller of a place and another bound, or the other way
    round, says where memory is read or written; one of the bounds is given at run time."""

    name = "places-clamped-into-the-range"
    axis = "boundary_handling"
    source = "OpenGL specification, texture wrap modes: GL_CLAMP_TO_EDGE"
    matches = (
        Case(_THREADS, "places clamped into the range"),
        Case(_LANES, "places clamped into the range"),
        Case(
            _THREADS.replace("max(min(at[i], last), base)", "min(max(0, at[i] - 1), last)"),
            "places clamped into the range",
        ),
    )
    near_misses = (
        NearMiss(
            _THREADS.replace("max(min(at[i], last), base)", "min(at[i], last)"), why="one end only"
        ),
        NearMiss(
            _THREADS.replace("last), base)", "15), 0)"), why="a table whose length is compiled in"
        ),
        NearMiss(_THREADS.replace("x[right] * 0.5f", "x[i] * right"), why="a number, no place"),
        NearMiss(
            _THREADS.replace("x[right]", "x[at[i] > 0]").replace(
                "out[i] =", "for (int k = 0; k < right; ++k) out[i + k] ="
            ),
            why="a count of rounds",
        ),
        NearMiss(vary(_LANES, ("tl.load(x + right)", "right")), why="a number, no place"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        graph, values = _read(facts)
        clamps = {n: inner for n in graph.of(*_OTHER) for inner in _inner(facts, n)}
        if not clamps:
            return
        found: dict[Node, None] = {}
        for access in graph.of(*READS, *WRITES, *ATOMICS):
            address = access.op.operand("pointer") or next(iter(access.op.inputs), None)
            placed = [address, *values.items(access.op.operand("index"))] if address else []
            for value in placed:
                above = graph.upstream(value, lambda n: n.op.kind not in _MOVED)
                used = [n for n in above if n in clamps]
                found |= dict.fromkeys([*used, *(clamps[n] for n in used)])
                found |= dict.fromkeys([access] if used else [])
        if found:
            yield self.decide(facts, "places clamped into the range", found)


def _read(facts: Facts) -> tuple[Graph, Values]:
    """What one thread does, where threads are named; else what a block does."""
    if facts.of_threads:
        return facts.threads, facts.thread_values
    return facts.graph, facts.values


def _inner(facts: Facts, outer: Node) -> Iterator[Node]:
    """The bound at the other end, of an integer whose ends are not both compiled in."""
    graph, values = _read(facts)
    kinds = [r.type.dtype for r in outer.op.results if r.type]
    if any(is_float(kind) for kind in kinds):
        return
    for value, end in (outer.op.inputs[:2], outer.op.inputs[1::-1]):
        node = graph.producer(graph.through(value, CASTS | COPIES))
        if node is None or node.op.kind != _OTHER[OpKind(outer.op.kind)]:
            continue
        bounds = [values.expr(v) for v in (end, *node.op.inputs[:2])]
        if sum(b.constant is None for b in bounds) > 1:
            yield node
