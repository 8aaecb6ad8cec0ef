"""Arrays that a kernel sets to zero beside its own work, for a kernel that comes later."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, mul
from kb.evidence import Decision
from kb.ops import READS, OpKind

_VALUE = "array cleared for a later kernel"
_PLACED = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.LOADED)

_ROUTED = """__device__ void fill(int* p, int n, int step, int by) {
    for (int i = threadIdx.x; i < n; i += step) p[i] = by;
}
__global__ void route(const float* scores, int* best, int* counts, int n, int many) {
    if (counts != nullptr && blockIdx.x == 0) fill(counts, many, blockDim.x, 0);
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) best[row] = scores[row * 2] < scores[row * 2 + 1];
}
"""


class ClearedForLater(Pattern):
    """All that a kernel does with an array is to store zeros, beside other arrays that it fills
    with what it makes of loaded elements."""

    name = "array-cleared-for-a-later-kernel"
    axis = "fusion"
    source = "NVIDIA, TensorRT-LLM, routing of experts: counters of the next kernel"
    matches = (
        Case(_ROUTED, _VALUE),
        Case(
            _ROUTED.replace("fill(counts, many, blockDim.x, 0)", "counts[threadIdx.x] = 0"), _VALUE
        ),
    )
    near_misses = (
        NearMiss(_ROUTED.replace("blockDim.x, 0)", "blockDim.x, 1)"), why="filled with ones"),
        NearMiss(
            _ROUTED.replace("best[row] =", "atomicAdd(counts + row, 1), best[row] ="),
            why="the kernel itself counts there",
        ),
        NearMiss(
            _ROUTED.replace("if (row < n) best[row]", "if (row == n) best[row] = counts[row];\n"
                            "    if (row < n) best[row]"),
            why="the kernel itself reads it",
        ),
        NearMiss(
            _ROUTED.replace("best[row] = scores[row * 2] < scores[row * 2 + 1]", "best[row] = -1"),
            why="nothing but filling",
        ),
        NearMiss(
            _ROUTED.replace("if (row < n) best", "if (row < n) counts[row] = 0;\n    best").replace(
                "fill(counts, many, blockDim.x, 0)", "best[0] = 1"
            ),
            why="an output of the same rows",
        ),
        NearMiss(ADD_THREADS, why="one output"),
        NearMiss(ROW_NORM_THREADS, why="one output"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        own: dict[str, list[Access]] = {}
        for access in facts.accesses:
            if access.array is not None:
                own.setdefault(access.array, []).append(access)
        cleared = {array: some for array, some in own.items() if all(_zero(facts, a) for a in some)}
        elsewhere = _handed_on(facts) if cleared else set()
        cleared = {
            name: some
            for name, some in cleared.items()
            if not _roots(name) & elsewhere and not any(_of_work(facts, a, cleared) for a in some)
        }
        work = [s for s in facts.stores if s.array not in cleared and _made(facts, s)]
        where = [a for some in cleared.values() for a in some]
        if any(not a.node.excludes(s.node) for a in where for s in work):
            yield self.decide(facts, _VALUE, where, ", ".join(cleared))


def _zero(facts: Facts, access: Access) -> bool:
    """Whether an access stores zero, as it is written where the store is or around it: none that a
    helper gives back, as it does for what a device cannot do."""
    if not access.is_store or access.is_atomic:
        return False
    core = facts.threads.core(access.value)
    made = facts.threads.producer(core)
    given = made is None or _depth(made) <= _depth(access.node)
    return given and facts.thread_values.literal(core) == 0


def _of_work(facts: Facts, zero: Access, cleared: dict[str, list[Access]]) -> bool:
    """Whether more than the own thread moves a place, and that of an element that is worked on goes
    as many times as far with all that moves it: an output, if of a device that cannot make it."""
    others = [a for a in facts.accesses if a.array not in cleared]
    further = any(atom.kind is not AtomKind.LANE for atom in _moving(zero))
    return further and any(_in_step(zero, a) for a in others)


def _in_step(one: Access, other: Access) -> bool:
    moving = _moving(one)
    if len(one.index) != 1 or len(other.index) != 1 or moving != _moving(other):
        return False
    ways = [[access.index[0].coefficient(atom) for atom in moving] for access in (one, other)]
    far, near = ways[0][0], ways[1][0]
    return all(mul(a, near) == mul(b, far) for a, b in zip(*ways, strict=True))


def _moving(access: Access) -> set[Atom]:
    return {a for index in access.index for a in index.top() if a.kind in _PLACED}


def _handed_on(facts: Facts) -> set[str]:
    """What calls that are not understood and inline assembly are handed, or accesses of which
    nothing tells the array, and pointers that this is made of without a load."""
    unknown = [a.node for a in facts.accesses if a.array is None]
    unknown += facts.threads.of(OpKind.OPAQUE, OpKind.INLINE_ASM)
    pending = [v for n in unknown for v in n.op.inputs]
    seen = set(pending)
    for value in pending:
        made = facts.threads.producer(value)
        if made is None or made.op.kind not in (*READS, OpKind.ATTRIBUTE):
            above = [v for v in facts.threads.feeds(value) if v not in seen]
            seen.update(above)
            pending += above
    return seen


def _roots(array: str) -> set[str]:
    """The name of an array, and of the struct that it is a field of."""
    return {array, array.partition(".")[0]}


def _depth(node: Node) -> int:
    """In how many helpers a step stands."""
    return len(node.op.span.via) + bool(node.op.span.call)


def _made(facts: Facts, store: Access) -> bool:
    """Whether something that is made of loaded elements is stored at places that differ."""
    return any(e.has(*_PLACED) for e in store.index) and bool(facts.feeding(store.value))
