"""Work that blocks share by their own numbers, where nothing more is known of how."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_pointer import PRODUCT_PERSISTENT_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_PERSISTENT_THREADS
from extractors.patterns.jobs_by_block import JOBS_THREADS, JobsByBlock
from extractors.patterns.multi_problem_walk import MultiProblemWalk
from extractors.patterns.one_block import OneBlock
from extractors.patterns.one_output_tile_per_cta import OneOutputTilePerCta
from extractors.patterns.persistent_blocked_partition import PersistentBlockedPartition
from extractors.patterns.persistent_grid_stride_loop import PersistentGridStrideLoop
from extractors.patterns.searched_work import SearchedWork
from extractors.patterns.streamed_steps import StreamedSteps
from kb.analysis.facts import Facts
from kb.analysis.numbered_places import OF_BLOCK, numbers_below
from kb.evidence import Decision
from kb.ops import ATOMICS, READS, OpKind

_VALUE = "work by the block id"
_TOLD = (
    JobsByBlock(), MultiProblemWalk(), OneBlock(), OneOutputTilePerCta(),
    PersistentBlockedPartition(), PersistentGridStrideLoop(), SearchedWork(), StreamedSteps(),
)  # fmt: skip

_CHAIN = """__global__ void chain(const int* next, const int* given, int* out, int* length,
                      int steps) {
    unsigned own = blockIdx.x;
    int at = 0, kept = 0;
    for (int k = 0; k < steps; ++k) {
        at = next[own * steps + at];
        while (at != -1) {
            if (given[own * steps + at] > k) {
                out[kept] = at;
                kept += 1;
                break;
            }
            at = next[own * steps + at];
        }
        if (at == -1) break;
    }
    length[own] = kept;
}
"""
_SORTED = """__global__ void sorted(const int* ids, int* places, int* counts, int n) {
    int own = blockIdx.x;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (ids[i] == own) {
            int at = atomicAdd(&counts[ids[i]], 1);
            places[at] = i;
        }
    }
}
"""


class PlacedByNumbers(Pattern):
    """Places, bounds of loops or branches rest on the block id, and no other way is known in which
    blocks share the work. Told with where block and thread are asked for their numbers, and with
    what is computed of these."""

    name = "work-by-the-block-id"
    axis = "work_decomposition"
    source = "CUDA C++ Programming Guide, thread hierarchy: indices of blocks and threads"
    matches = (Case(_CHAIN, _VALUE), Case(_SORTED, _VALUE))
    near_misses = (
        NearMiss(_CHAIN.replace("blockIdx.x", "steps"), why="no block is asked"),
        NearMiss(ADD_THREADS, why="a tile for each block is told"),
        NearMiss(JOBS_THREADS, why="jobs of blocks are told"),
        NearMiss(PRODUCT_PERSISTENT_THREADS, why="the walk of a block is told"),
        NearMiss(PRODUCT_PERSISTENT_POINTER, why="the walk of a program is told"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        graph = facts.threads
        asking = graph.of(*READS, OpKind.STORE, *ATOMICS, OpKind.FOR, OpKind.WHILE, OpKind.IF)
        given = (v for n in asking for role, v in n.op.operands if role not in ("value", "init"))
        found = numbers_below(facts, given)
        if not any(n.op.kind in OF_BLOCK for n in found):
            return
        if not any(True for one in _TOLD for _ in one.seen(facts)):
            yield self.decide(facts, _VALUE, found)
