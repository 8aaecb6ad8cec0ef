"""One block that does everything."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.unmasked_accesses import may_touch
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import ATOMICS, OWN_THREAD, OpKind

_OFFSETS = """__global__ void offsets(const int* ends, int* starts, int groups) {
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int g = 0; g < groups; ++g) {
            starts[g] = sum;
            sum += (ends[g] + 127) / 128 * 128;
        }
    }
}
"""
_COUNTS = """__global__ void count(const int* x, int* out, int n) {
    int mine = 0;
    for (int i = 0; i < n; ++i) mine += x[i] == threadIdx.x;
    out[threadIdx.x] = mine;
}
"""


_TOTAL = (
    TILE
    + """
@ct.kernel
def total(x, out, n: int, T: Int):
    sum = ct.full((T,), 0, dtype=ct.int32)
    for i in range(ct.cdiv(n, T)):
        sum = sum + ct.load(x, index=(i,), shape=(T,))
    ct.store(out, index=(0,), tile=sum)
"""
)
_TOTAL_POINTER = (
    POINTER
    + """
@triton.jit
def total(x, out, n):
    sum = 0
    for i in range(n):
        sum += tl.load(x + i)
    tl.store(out, sum)
"""
)


class OneBlock(Pattern):
    """No block asks which one it is: one block does all the work, or one thread does."""

    name = "one-block-does-everything"
    axis = "work_decomposition"
    source = "CUDA C++ Programming Guide, thread hierarchy: a grid of one block"
    matches = (
        Case(_OFFSETS, "one thread does everything"),
        Case(_COUNTS, "one block does everything"),
        Case(
            vary(_COUNTS, ("int mine = 0;", "int block = blockIdx.x;\n    int mine = 0;")),
            "one block does everything",
        ),
        Case(_TOTAL, "one block does everything"),
        Case(_TOTAL_POINTER, "one block does everything"),
    )
    near_misses = (
        NearMiss(
            vary(_TOTAL, ("(out, index=(0,)", "(out, index=(ct.bid(0),)")),
            why="the block id says where to store",
        ),
        NearMiss(
            vary(_TOTAL_POINTER, ("x + i", "x + tl.num_programs(0) * i")),
            why="the blocks are counted",
        ),
        NearMiss(
            vary(_COUNTS, ("out[threadIdx.x]", "out[blockIdx.x * blockDim.x + threadIdx.x]")),
            why="the block id says where to store",
        ),
        NearMiss(
            vary(_OFFSETS, ("if (threadIdx.x == 0)", "if (threadIdx.x < groups)")),
            why="several threads work",
            value="one thread does everything",
        ),
        NearMiss(
            vary(
                _OFFSETS,
                ("threadIdx.x == 0", "threadIdx.x == groups"),
                ("        }\n    }\n", "        }\n    } else starts[threadIdx.x] = 0;\n"),
            ),
            why="the other threads store, too",
            value="one thread does everything",
        ),
        NearMiss(ADD_THREADS, why="the block id says where to store"),
        NearMiss(PRODUCT_POINTER, why="the block id says where to store"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        unknown = any(may_touch(facts, n) for n in facts.threads.of(OpKind.OPAQUE))
        unknown = unknown or (not facts.of_threads and bool(facts.threads.of(OpKind.OPAQUE)))
        ids = facts.threads.of(OpKind.BLOCK_ID, OpKind.CLUSTER_RANK)
        asked = any(facts.threads.users(n.result) for n in ids)
        if not facts.stores or unknown or asked or _counts_blocks(facts):
            return
        if not facts.of_threads:
            walks = [x.node for x in facts.loops if not x.node.loops]
            yield self.decide(facts, "one block does everything", walks or facts.stores)
            return
        own = facts.threads.of(*OWN_THREAD)
        chosen = [
            n
            for n in facts.threads.of(OpKind.IF)
            if facts.threads.kind_of(n.op.inputs[0]) == OpKind.EQ
            and facts.threads.roots(n.op.inputs[0], OpKind.THREAD_ID)
        ]
        alone = chosen and all(
            any(_holding(n, s) for n in chosen) for s in facts.threads.of(OpKind.STORE)
        )
        alone = alone and not any(
            facts.threads.roots(load.op.inputs[0], *OWN_THREAD)
            for load in facts.threads.of(OpKind.LOAD)
            if not any(load.inside(n) for n in chosen)
        )
        value = "one thread does everything" if alone else "one block does everything"
        yield self.decide(facts, value, [*chosen, *own] if alone else own)


def _counts_blocks(facts: Facts) -> bool:
    """Whether the number of blocks is asked for anything but a bound of the own thread."""
    graph = facts.threads
    counts = graph.of(OpKind.NUM_BLOCKS)
    if counts and not facts.of_threads:
        return True
    places = (n.op.operand("pointer") for n in graph.of(OpKind.LOAD, OpKind.STORE, *ATOMICS))
    return any(graph.rests_on(p, n) for p in places for n in counts)


def _holding(branch: Node, node: Node) -> bool:
    """True for what runs where the condition of a branch holds."""
    return any(n.parent is branch and n.branch == 0 for n in (node, *node.around()))
