"""Whole numbers that all blocks add to places which no block owns: how many of each kind there are,
or which place in a list is the next free one."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_counters import COUNT, COUNT_THREADS, COUNT_TILE
from extractors.patterns.cases_rows import PARTIAL_SUM
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.locks import spins
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_ADDS = frozenset({OpKind.ATOMIC_ADD, OpKind.ATOMIC_INC})
_MOST = 16
"""Sides of choices that are looked at."""

_CLAIM = (
    POINTER
    + """
@triton.jit
def place(x, cursor, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    own = tl.load(x + at, mask=at < n)
    to = tl.atomic_add(cursor + own, 1, mask=at < n)
    tl.store(out + own * n + to, at, mask=at < n)
"""
)
_CLAIM_TILE = (
    TILE
    + """
@ct.kernel
def place(x, cursor, out, T: Int):
    own = ct.load(x, index=(ct.bid(0),), shape=(T,))
    to = ct.atomic_add(cursor, own, 1)
    ct.scatter(out, to, own)
"""
)
_CLAIM_THREADS = """__global__ void place(const int* x, int* cursor, int* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[atomicAdd(cursor + x[at], 1)] = at;
}
"""
_RANK = vary(_CLAIM, ("out + own * n + to, at,", "out + at, to,"))
_RANK_TILE = vary(_CLAIM_TILE, ("ct.scatter(out, to, own)", "ct.store(out, (ct.bid(0),), to)"))
_RANK_THREADS = """__global__ void rank(const int* x, int* count, int* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] >= 0 ? atomicAdd(&count[x[at]], 1) : -1;
}
"""


class SharedCounters(Pattern):
    """An atomic adds a whole number at a place that the block id alone does not say; what the
    counter held before is not asked for, says where something is stored, or is stored itself."""

    name = "counters-that-all-blocks-add-to"
    axis = "cross_cta_reduction"
    source = "NVIDIA, CUDA C++ Programming Guide, atomic functions"
    matches = (
        Case(COUNT, "atomics into counters"),
        Case(COUNT_TILE, "atomics into counters"),
        Case(COUNT_THREADS, "atomics into counters"),
        Case(_CLAIM, "place claimed by an atomic on a counter"),
        Case(_CLAIM_TILE, "place claimed by an atomic on a counter"),
        Case(_CLAIM_THREADS, "place claimed by an atomic on a counter"),
        Case(_RANK, "number handed out by an atomic on a counter"),
        Case(_RANK_TILE, "number handed out by an atomic on a counter"),
        Case(_RANK_THREADS, "number handed out by an atomic on a counter"),
    )
    near_misses = (
        NearMiss(
            _RANK_THREADS.replace("&count[x[at]]", "&count[blockIdx.x]"),
            why="every block has a counter of its own",
        ),
        NearMiss(
            vary(_RANK, ("cursor + own, 1,", "cursor + own, 0.5,")),
            why="numbers with a point are a sum, not a count",
        ),
        NearMiss(
            vary(COUNT, ("tl.atomic_add(out + own, 1,", "tl.store(out + own, 1,")),
            why="marked, not counted",
        ),
        NearMiss(
            vary(COUNT, ("(out + own, 1,", "(out + own, 1.5,")),
            why="numbers with a point are a sum, not a count",
        ),
        NearMiss(
            vary(COUNT_TILE, ("(out, own, 1)", "(out, ct.bid(0), 1)")),
            why="every block has a counter of its own",
        ),
        NearMiss(
            COUNT_THREADS.replace("atomicAdd(out + x[at], 1)", "out[at] = x[at] + 1"),
            why="no atomic",
        ),
        NearMiss(
            vary(
                COUNT,
                (
                    "    tl.atomic_add(out + own, 1, mask=at < n)",
                    "    tl.atomic_add(out, 1)\n    while tl.load(out) < n:\n        pass",
                ),
            ),
            why="blocks wait for one another",
        ),
        NearMiss(PARTIAL_SUM, why="every block stores its own partial sum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        added = [a for a in facts.stores if a.node.op.kind in _ADDS]
        if not added:
            return
        waits = spins(facts)
        counters = [
            a
            for a in added
            if a.node not in waits and self._whole(facts, a.value) and not self._own(a)
        ]
        read = {a.array for a in facts.accesses if a not in counters}
        counted = [
            a for a in counters if a.array not in read and not facts.graph.users(a.node.result)
        ]
        if counted:
            yield self.decide(facts, "atomics into counters", counted)
        placing = [
            v
            for a in facts.stores
            if a not in counters
            for role, v in a.node.op.operands
            if role not in ("value", "mask")
        ]
        claimed = [a for a in counters if any(facts.graph.rests_on(v, a.node) for v in placing)]
        if claimed:
            yield self.decide(facts, "place claimed by an atomic on a counter", claimed)
        ends = {n for a in facts.stores if a not in counters for n in self._stored(facts, a)}
        if kept := [a for a in counters if a not in claimed and a.node in ends]:
            yield self.decide(facts, "number handed out by an atomic on a counter", kept)

    def _stored(self, facts: Facts, store: Access) -> list[Node]:
        """What makes the number that is stored, on each side of a branch or of a choice."""
        found: list[Node] = []
        pending = [store.value] if store.value is not None else []
        for value in pending:
            ends = facts.graph.ends(value, VIEWS | CASTS)
            found += [n for n in ends if n not in found]
            choices = [n for n in ends if n.op.kind == OpKind.SELECT and len(pending) < _MOST]
            sides = (n.op.operand(side) for n in choices for side in ("x", "y"))
            pending += [v for v in sides if v is not None]
        return found

    def _whole(self, facts: Facts, value: str | None) -> bool:
        """True for a whole number, or a tile of them."""
        if value is None:
            return True
        number = facts.number(value)
        return isinstance(number, int) or facts.types.dtype(value).startswith(("i", "u"))

    def _own(self, access: Access) -> bool:
        """True when the block id, and no loaded number, says which counter it is."""
        return any(i.has(AtomKind.BLOCK) and not i.has(AtomKind.LOADED) for i in access.index)
