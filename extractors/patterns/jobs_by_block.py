"""Blocks of one launch that have different jobs: where a block stands in the grid says which."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

JOBS_THREADS = """__global__ void rotate(const float* q, const float* k, const float* by, float* qo,
                       float* ko, int heads, int width) {
    int head = blockIdx.y;
    int at = threadIdx.x;
    float turn = by[blockIdx.x * width + at];
    if (head < heads) {
        qo[(blockIdx.x * heads + head) * width + at] =
            q[(blockIdx.x * heads + head) * width + at] * turn;
    } else {
        int own = head - heads;
        ko[(blockIdx.x + own) * width + at] = k[(blockIdx.x + own) * width + at] * turn;
    }
}
"""
_OTHERS = (AtomKind.LANE, AtomKind.LOADED, AtomKind.INDUCTION)


class JobsByBlock(Pattern):
    """A comparison of the own block id, the same for all threads of a block, chooses between work
    on different arrays."""

    name = "jobs-by-the-block-id"
    axis = "work_decomposition"
    source = "Li et al., HFuse (2022): horizontal fusion, kernels side by side in one grid"
    matches = (Case(JOBS_THREADS, "roles by the block id"),)
    near_misses = (
        NearMiss(
            JOBS_THREADS.replace("head < heads)", "at < heads)"), why="threads are told apart"
        ),
        NearMiss(JOBS_THREADS.replace("ko[(", "qo[(").replace("k[(", "q[("), why="the same arrays"),
        NearMiss(ADD_THREADS, why="no block is told apart"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if found := parted_jobs(facts):
            yield self.decide(facts, "roles by the block id", found)


def parted_jobs(facts: Facts) -> list[Node]:
    """Branches between jobs on different arrays, with what they ask of the block."""
    found: list[Node] = []
    for branch in facts.graph.of(OpKind.IF) if facts.of_threads else ():
        tests = [n for n in comparisons(facts, branch.op.inputs[0]) if of_block(facts, n)]
        jobs = [_moved(facts, branch, side) for side in (0, 1)] if tests else []
        if jobs and all(jobs) and jobs[0] - jobs[1] and jobs[1] - jobs[0]:
            made = [facts.graph.producer(v) for n in tests for v in n.op.inputs[:2]]
            ends = [n for n in made if n is not None and n.op.kind in (OpKind.ADD, OpKind.MUL)]
            found += [branch, *tests, *ends]
    return found


def of_block(facts: Facts, test: Node) -> bool:
    """A block id by itself, compared with what all blocks share."""
    both = sides(facts, test)
    block = [e.has(AtomKind.BLOCK) for e in both]
    return any(block) and not all(block) and not any(e.has(*_OTHERS) for e in both)


def _moved(facts: Facts, branch: Node, side: int) -> set[str]:
    """Arrays that are read or written on one side of a branch, where that writes anything."""
    inside: list[Access] = [
        a for a in facts.accesses if (branch, side) in _places(a.node) and a.array is not None
    ]
    names = {a.array for a in inside if a.array is not None}
    return names if any(a.is_store for a in inside) else set()


def _places(node: Node) -> set[tuple[Node | None, int]]:
    return {(n.parent, n.branch) for n in (node, *node.around())}
