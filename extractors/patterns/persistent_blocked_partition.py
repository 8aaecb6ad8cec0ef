"""Every block takes a contiguous chunk of the work items."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, TILE, vary
from extractors.patterns.cases_rows import NORM_BACKWARD
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_POINTER, SEQUENCES
from extractors.patterns.cases_rows_threads import NORM_BACKWARD_THREADS
from kb.analysis.chunks import chunk_steps
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind, sub
from kb.evidence import Decision

_BLOCKED = vary(
    NORM_BACKWARD,
    ("TM: Int, TN: Int):", "TM: Int, TN: Int, PER: Int):"),
    (
        "for i in range(own, ct.cdiv(M, TM), ct.num_blocks(0)):",
        "for i in range(own * PER, min((own + 1) * PER, M)):",
    ),
)
CHUNK_COUNTED = vary(
    NORM_BACKWARD,
    ("TM: Int, TN: Int):", "TM: Int, TN: Int, PER: Int):"),
    (
        "for i in range(own, ct.cdiv(M, TM), ct.num_blocks(0)):",
        "for n in range(PER):\n        i = own * PER + n",
    ),
)


_BLOCKED_POINTER = vary(
    NORM_BACKWARD_POINTER,
    ("TN: tl.constexpr):", "TN: tl.constexpr, PER: tl.constexpr):"),
    (
        "for i in range(own, tl.cdiv(M, TM), tl.num_programs(0)):",
        "for i in range(own * PER, tl.minimum((own + 1) * PER, M)):",
    ),
)


_CENTRED_POINTER = vary(
    _BLOCKED_POINTER,
    ("PER: tl.constexpr)", "PER: tl.constexpr, CENTRED: tl.constexpr)"),
    (
        "        hat = v * r[:, None]",
        "        if CENTRED:\n            m = tl.load(stat + M + rows, mask=rows < M, other=0.0)\n"
        "        hat = (v - m[:, None] if CENTRED else v) * r[:, None]",
    ),
)
_BLOCKED_THREADS = vary(
    NORM_BACKWARD_THREADS,
    ("int rows, int n)", "int rows, int n, int per)"),
    (
        "int row = blockIdx.x; row < rows; row += gridDim.x",
        "int row = blockIdx.x * per; row < min((blockIdx.x + 1) * per, rows); ++row",
    ),
)
_ROW_BY_NUMBERS = """__global__ void first(const float* x, float* out, int n) {
    float sum = 0.f;
    for (int i = 0; i < n; ++i) sum += x[blockIdx.x * n + i];
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
"""
_GROUP_THREADS = """__global__ void centre(float* x, int group, int n) {
    int at = blockIdx.x * group + threadIdx.x;
    int end = min(blockIdx.x * group + group, n);
    float sum = 0.f;
    for (int j = at; j < end; j += blockDim.x) sum += x[j];
    for (int j = at; j < end; j += blockDim.x) x[j] -= __shfl_sync(~0u, sum, 0) / group;
}
"""


_GROUP_BY_ROWS = (
    TILE
    + """
@ct.kernel
def centre(x, out, PER: Int, T: Int):
    own = ct.bid(0)
    total = ct.full((1, T), 0.0, dtype=ct.float32)
    for i in range(PER):
        total = total + ct.load(x, index=(own * PER + i, 0), shape=(1, T))
    middle = ct.sum(total, 1, keepdims=True) / PER
    for i in range(PER):
        v = ct.load(x, index=(own * PER + i, 0), shape=(1, T))
        ct.store(out, index=(own * PER + i, 0), tile=v - middle)
"""
)


_LIST = "persistent, a list of work for every CTA"
_LISTED_THREADS = """__global__ void work(const int* begin, const int* row, const int* size,
                     const float* x, float* out, int n) {
    for (int job = begin[blockIdx.x]; job < begin[blockIdx.x + 1]; ++job) {
        int at = row[job] * n;
        for (int i = threadIdx.x; i < size[job]; i += blockDim.x) out[at + i] = x[at + i];
    }
}
"""
_LISTED_POINTER = (
    POINTER
    + """
@triton.jit
def work(begin, row, size, x, out, n, T: tl.constexpr):
    own = tl.program_id(0)
    for job in range(tl.load(begin + own), tl.load(begin + own + 1)):
        at = tl.load(row + job) * n
        for i in range(0, tl.load(size + job), T):
            lane = i + tl.arange(0, T)
            tl.store(out + at + lane, tl.load(x + at + lane))
"""
)
_SEGMENT_THREADS = """__global__ void sums(const int* begin, const int* row, const float* x,
                     float* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float sum = 0.f;
        for (int at = begin[blockIdx.x]; at < begin[blockIdx.x + 1]; ++at)
            sum += x[row[at] * n + i];
        out[blockIdx.x * n + i] = sum;
    }
}
"""


class PersistentBlockedPartition(Pattern):
    """Work items run from the block id times a chunk to the next multiple; or from where a list
    begins for the block to where it begins for the next one, and the list says where an item's
    results go."""

    name = "persistent-blocked-partition"
    axis = "work_decomposition"
    source = "tilelore catalogue, P03"
    matches = (
        Case(_BLOCKED, "persistent blocked (contiguous chunk per CTA)"),
        Case(CHUNK_COUNTED, "persistent blocked (contiguous chunk per CTA)"),
        Case(_BLOCKED_POINTER, "persistent blocked (contiguous chunk per CTA)"),
        Case(_CENTRED_POINTER, "persistent blocked (contiguous chunk per CTA)"),
        Case(_BLOCKED_THREADS, "persistent blocked (contiguous chunk per CTA)"),
        Case(_LISTED_THREADS, _LIST),
        Case(_LISTED_POINTER, _LIST),
    )
    near_misses = (
        NearMiss(SEQUENCES, why="steps of one sequence, each from what the last one left"),
        NearMiss(NORM_BACKWARD, why="items are strided over the blocks"),
        NearMiss(ATTENTION, why="the loop runs over keys, and its bound is a mask's"),
        NearMiss(NORM_BACKWARD_POINTER, why="items are strided over the blocks"),
        NearMiss(NORM_BACKWARD_THREADS, why="items are strided over the blocks"),
        NearMiss(_GROUP_THREADS, why="the chunk is one row, which is summed up"),
        NearMiss(_GROUP_BY_ROWS, why="the rows of a group, of which each takes the sum of all"),
        NearMiss(_SEGMENT_THREADS, why="the elements of one segment are summed up"),
        NearMiss(
            _LISTED_THREADS.replace("begin[blockIdx.x]", "begin[0]"),
            why="every block goes through the list from its start",
        ),
        NearMiss(_LISTED_THREADS.replace("row[job]", "job"), why="items lie one behind the other"),
        NearMiss(_ROW_BY_NUMBERS, why="the numbers of one row are gone through one by one"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            chunk = chunk_steps(facts, loop)
            if chunk:
                value = "persistent blocked (contiguous chunk per CTA)"
                yield self.decide(facts, value, (*chunk, loop.node))
        if listed := [node for loop in facts.loops for node in _listed(facts, loop)]:
            yield self.decide(facts, _LIST, listed)


def _listed(facts: Facts, loop: Loop) -> list[Node]:
    """A loop over the part of a list that two neighbours of an array bound for the block, with
    what the list says of the places of results; nothing where an item has no loop of its own."""
    ends = [facts.graph.producer(facts.graph.core(v)) for v in (loop.low, loop.high) if v]
    bounds = [access for end in ends if end is not None and (access := facts.access(end))]
    if len(bounds) != 2 or loop.induction is None or bounds[0].array != bounds[1].array:
        return []
    first, last = (access.index[-1] for access in bounds)
    apart = sub(last, first).constant == 1 and first.has(AtomKind.BLOCK)
    if not apart or not any(one.node.inside(loop.node) for one in facts.loops if one is not loop):
        return []
    item = facts.values.expr(loop.induction).atom
    told = [a for a in facts.loads if item is not None and any(item == i.atom for i in a.index)]
    stored = [i for s in facts.stores if s.node.inside(loop.node) for i in s.index]
    where = {atom for index in stored for atom in index.atoms()}
    placed = [
        a.node
        for a in told
        if a.node.inside(loop.node) and a.value and facts.values.expr(a.value).atom in where
    ]
    return [loop.node, *(access.node for access in bounds), *placed] if placed else []
