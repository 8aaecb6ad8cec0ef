"""One code for several arrays: the place of the work chooses which of them a block, a warp or a
thread reads and writes."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import ATOMICS, READS, WRITES, OpKind

_HEADS = """__global__ void scale(float* q, float* k, const float* wq, const float* wk, int heads, int n) {
    int head = blockIdx.y;
    float* row = head < heads ? q + (blockIdx.x * heads + head) * n
                              : k + (blockIdx.x * 8 + head - heads) * n;
    const float* weight = head < heads ? wq : wk;
    row[threadIdx.x] = row[threadIdx.x] * weight[threadIdx.x];
}
"""  # noqa: E501
_BRANCHES = """__global__ void move(const float* a, const float* b, half* c, half* d, int n,
                     int m) {
    const float* from;
    half* to;
    int row = blockIdx.x;
    if (row < n) {
        from = a + row * m;
        to = c + row * m;
    } else {
        from = b + (row - n) * m;
        to = d + (row - n) * m;
    }
    to[threadIdx.x] = __float2half(from[threadIdx.x]);
}
"""
_SIDES = """__global__ void move(const float* a, const float* b, half* c, half* d, int n) {
    int side = blockIdx.y & 1;
    const float* from = side ? b : a;
    half* to = side ? d : c;
    to[blockIdx.x * n + threadIdx.x] = __float2half(from[blockIdx.x * n + threadIdx.x]);
}
"""
_VALUE = "several arrays by one code, each chosen by the place of the work"
_FOLLOWED = COPIES | CASTS | {OpKind.ADD, OpKind.SUB, OpKind.POINTER_CAST}
_PLACES = (AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION)


class ChosenArray(Pattern):
    """Where the work stands decides from which of several arrays something is loaded, and into
    which of several something is stored."""

    name = "array-chosen-by-the-place-of-the-work"
    axis = "fusion"
    source = "Hsu et al., Liger Kernel (2024), rotary embedding of queries and keys in one kernel"
    matches = (Case(_HEADS, _VALUE), Case(_BRANCHES, _VALUE), Case(_SIDES, _VALUE))
    near_misses = (
        NearMiss(
            _HEADS.replace("head < heads", "wk != nullptr"), why="the call decides, for all blocks"
        ),
        NearMiss(_SIDES.replace("blockIdx.y & 1", "n & 1"), why="the call decides, for all blocks"),
        NearMiss(_HEADS.replace(": k +", ": q +"), why="two places of one array"),
        NearMiss(
            _BRANCHES.replace("to = d + (row - n)", "to = c + row"), why="all goes into one array"
        ),
        NearMiss(
            _BRANCHES.replace("from = b + (row - n)", "from = a + row"), why="all is of one array"
        ),
        NearMiss(ADD_THREADS, why="nothing is chosen"),
        NearMiss(ROW_NORM_THREADS, why="nothing is chosen"),
        NearMiss(PRODUCT_POINTER, why="nothing is chosen"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        chosen = [n for n in facts.graph.of(OpKind.SELECT, OpKind.IF) if _by_place(facts, n)]
        pointers = [(n, v) for n in chosen for v in _pointers(facts, n)]
        kinds: dict[bool, list[Node]] = {False: [], True: []}
        for access in facts.graph.of(*READS, *WRITES, *ATOMICS) if pointers else ():
            through = access.op.operand("pointer")
            taken = [n for n, v in pointers if _behind(facts, through, v)]
            if taken:
                kinds[access.op.kind in READS].append(access)
                kinds[access.op.kind in READS] += taken
        if all(kinds.values()):
            yield self.decide(facts, _VALUE, [*kinds[True], *kinds[False]])


def _by_place(facts: Facts, node: Node) -> bool:
    """Whether a choice asks where the work stands."""
    tests = comparisons(facts, node.op.inputs[0])
    made = facts.graph.producer(facts.graph.core(node.op.inputs[0])) if not tests else None
    if made is not None:
        return any(facts.values.expr(v).has(*_PLACES) for v in made.op.inputs[:2])
    return any(side.has(*_PLACES) for test in tests for side in sides(facts, test))


def _pointers(facts: Facts, node: Node) -> list[str]:
    """Results of a choice that are places in arrays of their own on either side."""
    if node.op.kind == OpKind.SELECT:
        ends = [tuple(node.op.inputs[1:3])]
    else:
        hands = [facts.graph.handed(node, side) for side in range(len(node.op.regions))]
        ends = [*zip(*hands, strict=False)] if len(hands) == 2 else []
    found = []
    for result, pair in zip(node.op.results, ends, strict=False):
        arrays = [_arrays(facts, value) for value in pair]
        if len(arrays) == 2 and all(arrays) and arrays[0].isdisjoint(arrays[1]):
            found.append(result.name)
    return found


def _arrays(facts: Facts, value: str) -> set[str]:
    """The arrays of the kernel in which a pointer may point."""
    given = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.ARRAY}
    return {v for v in _way(facts, value) if v in given}


def _behind(facts: Facts, pointer: str | None, chosen: str) -> bool:
    return pointer is not None and chosen in _way(facts, pointer)


def _way(facts: Facts, value: str) -> list[str]:
    """Values that a pointer is, one behind the other."""
    pending = [value]
    for current in pending:
        made = facts.graph.producer(current)
        if made is not None and made.op.kind in _FOLLOWED:
            pending += [v for v in made.op.inputs if v not in pending]
    return pending
