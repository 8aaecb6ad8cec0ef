"""Whether warps of a block, or blocks of a grid, do different work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.shared import SharedMemory
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ir import Region, walk
from kb.ops import COMPARISONS, WRITES, OpKind

_OPTION = vary(
    PRODUCT_POINTER,
    ("in range(0, tl.cdiv(K, TK))", "in tl.range(0, tl.cdiv(K, TK), warp_specialize=True)"),
)
_BY_FLAG = vary(
    _OPTION, ("specialize=True", "specialize=APART"), ("(a, b", "(APART: tl.constexpr, a, b")
)
_ROLES = """#include <cuda_pipeline.h>
__global__ void stage(const float* x, float* out, int n) {
    __shared__ float buf[256];
    int warp = threadIdx.x / 32;
    float acc = 0.f;
    for (int i = 0; i < n; ++i) {
        if (warp == 0) {
            __pipeline_memcpy_async(&buf[threadIdx.x], &x[i * 32 + threadIdx.x], 4);
            __pipeline_commit();
            __pipeline_wait_prior(0);
        } else {
            acc += buf[threadIdx.x % 32];
        }
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
"""
_JOBS = """__global__ void stage(const float* x, const float* w, float* out) {
    __shared__ float rows[32];
    __shared__ float gains[32];
    if (threadIdx.y == 0) {
        rows[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
    } else if (threadIdx.y == 1) {
        gains[threadIdx.x] = w[threadIdx.x];
    }
    __syncthreads();
    out[(blockIdx.x * 4 + threadIdx.y) * 32 + threadIdx.x] = rows[threadIdx.x] * gains[threadIdx.y];
}
"""
WARP = 32
"""Threads of a warp. Source: CUDA C++ Programming Guide, hardware multithreading."""

_BY_NUMBER = "roles by the number of the warp"
_BY_BLOCK = "roles by the number of the block"
_TWO = (
    POINTER
    + """
@triton.jit
def both(x, y, out, low, n, m, T: tl.constexpr):
    own = tl.program_id(0)
    at = tl.arange(0, T)
    if own < m:
        tl.store(out + own * T + at, tl.load(x + own * T + at) * 2.0)
    else:
        tl.store(low + (own - m) * T + at, tl.load(y + (own - m) * T + at) + 1.0)
"""
)
_TWO_THREADS = """__global__ void both(const float* x, const float* y, float* out,
                                  float* low, int n) {
    if (blockIdx.x % 2) {
        low[blockIdx.x / 2 * blockDim.x + threadIdx.x] = y[threadIdx.x] + 1.f;
        return;
    }
    int at = blockIdx.x / 2 * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] * 2.f;
}
"""
_WARP_OF_GRID = "blockIdx.x * 4 + threadIdx.x / 32 < n"
_COPIES = (OpKind.ASYNC_COPY, OpKind.BULK_COPY)
_OWN = (OpKind.THREAD_ID, OpKind.WARP_ID, OpKind.LANE_ID, OpKind.WARP_PARTITION)


class WarpRoles(Pattern):
    """A branch on the warp whose one side copies into shared memory and whose other side reads it,
    or on whose two sides something is written; a branch on the block whose sides write other
    arrays; or an option of a loop."""

    name = "roles-of-warps"
    axis = "warp_specialization"
    source = "Bauer et al., CudaDMA (2011); Triton documentation, range: warp_specialize"
    matches = (
        Case(_OPTION, "compiler option"),
        Case(_BY_FLAG, "compiler option"),
        Case(_ROLES, "producer/consumer"),
        Case(_JOBS, _BY_NUMBER),
        Case(_JOBS.replace("threadIdx.y == ", "threadIdx.x / 32 == "), _BY_NUMBER),
        Case(_JOBS.replace("} else if", "}\n    if"), _BY_NUMBER),
        Case(_TWO, _BY_BLOCK),
        Case(_TWO_THREADS, _BY_BLOCK),
        Case(_TWO_THREADS.replace("blockIdx.x % 2", _WARP_OF_GRID), _BY_NUMBER),
    )
    near_misses = (
        NearMiss(vary(_TWO, ("tl.store(low", "tl.store(out")), why="one output, in two ways"),
        NearMiss(vary(_TWO, ("own < m:", "n < m:")), why="the launch decides for all blocks"),
        NearMiss(_TWO_THREADS.replace("        return;\n", ""), why="every block goes on"),
        NearMiss(
            _TWO_THREADS.replace("blockIdx.x % 2", _WARP_OF_GRID.replace(" / 32", "")),
            why="threads are told apart",
        ),
        NearMiss(_TWO_THREADS.replace("low[", "out["), why="one output, in two ways"),
        NearMiss(vary(_OPTION, ("=True", "=False")), why="the option is off"),
        NearMiss(PRODUCT_POINTER, why="the loop has no such option"),
        NearMiss(PRODUCT_THREADS, why="every thread copies and computes"),
        NearMiss(ROW_NORM_THREADS, why="a branch on the lane only stores a result"),
        NearMiss(_JOBS.replace("else if (threadIdx.y == 1) {", "if (out) {"), why="one role only"),
        NearMiss(
            _JOBS.replace("} else if (threadIdx.y == 1)", "}\n    if (threadIdx.y == 0)"),
            why="one warp does both",
        ),
        NearMiss(_JOBS.replace("threadIdx.y == ", "blockIdx.y == "), why="blocks are told apart"),
        NearMiss(
            _JOBS.replace("threadIdx.y == ", "threadIdx.x % 32 == "), why="lanes are told apart"
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        options = [
            loop.range
            for loop in facts.loops
            if loop.range is not None
            and self._asked(facts, loop.range.op.operand("warp_specialize"))
        ]
        if options:
            yield self.decide(facts, "compiler option", options)
        apart: dict[str, list[Node]] = {}
        for value, nodes in _apart(facts):
            apart.setdefault(value, []).extend(nodes)
        for value, nodes in apart.items():
            yield self.decide(facts, value, nodes)
        if facts.program is facts.source:
            return
        shared = facts.shared
        roles = [n for n in facts.threads.of(OpKind.IF) if self._parts(facts, shared, n)]
        budgets = facts.threads.of(OpKind.REGISTER_BUDGET)
        if roles or budgets:
            yield self.decide(facts, "producer/consumer", [*roles, *budgets])
        elif _BY_NUMBER not in apart and (jobs := _by_number(facts)):
            yield self.decide(facts, _BY_NUMBER, jobs)

    def _asked(self, facts: Facts, option: str | None) -> bool:
        """An option that is on, or that a compile-time parameter turns on."""
        return option is not None and (facts.flag(option) or option in facts.constexprs)

    def _parts(self, facts: Facts, shared: SharedMemory, branch: Node) -> bool:
        """True when a test of the thread parts copying from reading."""
        graph, test = facts.threads, branch.op.inputs[0]
        asked = graph.roots(test, *_OWN)
        if not asked or not graph.roots(test, *COMPARISONS) or len(branch.op.regions) < 2:
            return False
        sides = [list(walk(region)) for region in branch.op.regions]
        fills = [any(op.kind in _COPIES for op in side) for side in sides]
        reads = [any(op.kind == OpKind.LOAD and shared.holds(op) for op in s) for s in sides]
        reads = [
            r or any(op.kind == OpKind.MMA for op in s) for r, s in zip(reads, sides, strict=True)
        ]
        return fills[0] != fills[1] and reads[fills.index(False)]


def _apart(facts: Facts) -> Iterator[tuple[str, list[Node]]]:
    """Branches on the number of the block, or of a warp of the grid, whose sides write other
    arrays, or one of which writes its own and leaves; with what they ask."""
    for branch in facts.graph.of(OpKind.IF):
        test = facts.graph.producer(facts.graph.core(branch.op.inputs[0]))
        value = _asked(facts, branch.op.inputs[0]) if test is not None else ""
        if branch.loops or not value:
            continue
        inside = [s for s in facts.stores if s.node.inside(branch)]
        first = [s for s in inside if _side(s.node, branch) == 0]
        rest = [s for s in inside if s not in first]
        end = branch.op.regions[0].terminator
        if not rest and end is not None and end.kind == OpKind.RETURN:
            rest = [s for s in facts.stores if s.node.index > branch.last]
        arrays = [{s.array for s in side} for side in (first, rest)]
        if all(arrays) and not arrays[0] & arrays[1] and None not in arrays[0] | arrays[1]:
            yield value, [branch, *([test] if test is not None else [])]


def _side(node: Node, branch: Node) -> int:
    """The side of a branch that a node stands on."""
    way = (one for one in (node, *node.around()) if one.parent is branch)
    return next((one.branch for one in way), -1)


def _asked(facts: Facts, condition: str) -> str:
    """Whether the number of the block alone, or that of the warp, is asked beside numbers that all
    share; empty for any other condition."""
    tests = [n for n in facts.graph.upstream(condition) if n.op.kind in COMPARISONS]
    values = [condition, *(v for n in tests for v in n.op.inputs[:2])]
    atoms = {a for v in values for a in _shared(facts.values.expr(v))}
    if any(a.kind in (AtomKind.LANE, AtomKind.LOADED, AtomKind.INDUCTION) for a in atoms):
        return ""
    if facts.of_threads and any(_counts_warps(a) for a in atoms):
        return _BY_NUMBER
    return _BY_BLOCK if any(a.kind is AtomKind.BLOCK for a in atoms) else ""


def _shared(value: Expr) -> Iterator[Atom]:
    """The atoms of an expression; the number of a warp is taken as one."""
    for atom in value.top():
        yield atom
        for inner in () if _counts_warps(atom) else atom.args:
            yield from _shared(inner)


def _counts_warps(atom: Atom) -> bool:
    lanes = atom.args[0].atom if atom.kind is AtomKind.FLOOR_DIV else None
    counted = lanes is not None and lanes.kind is AtomKind.LANE
    return counted and atom.args[1].constant == WARP


def _by_number(facts: Facts) -> list[Node]:
    """Branches that ask for the number of the warp, or of a row of threads, on both sides of which
    something is written, or one behind the other for other numbers; with what they ask."""
    found: list[Node] = _one_by_one(facts)
    for branch in facts.threads.of(OpKind.IF):
        if len(branch.op.regions) < 2 or not all(map(_writes, branch.op.regions)):
            continue
        test = facts.threads.producer(facts.threads.core(branch.op.inputs[0]))
        if test is not None and test.op.kind in COMPARISONS and _of_warp(facts, test):
            found += [branch, test, *_further(facts, branch)]
    return found


def _one_by_one(facts: Facts) -> list[Node]:
    """Branches one behind the other, in each of which the warp of another number writes."""
    asked: dict[tuple[object, ...], dict[int, list[Node]]] = {}
    for branch in facts.threads.of(OpKind.IF):
        test = facts.threads.producer(facts.threads.core(branch.op.inputs[0]))
        if test is None or test.op.kind != OpKind.EQ or not _writes(branch.op.regions[0]):
            continue
        sides = [facts.thread_values.expr(v) for v in test.op.inputs[:2]]
        for warp, number in (sides, sides[::-1]):
            one = number.constant
            if one is not None and warp.atom is not None and _is_warp(facts, warp.atom):
                group = asked.setdefault((branch.parent, branch.branch, warp.atom), {})
                group.setdefault(one, []).extend((branch, test))
    several = [group for group in asked.values() if len(group) > 1]
    return [node for group in several for nodes in group.values() for node in nodes]


def _further(facts: Facts, branch: Node) -> list[Node]:
    """The same question for another number, on the other side."""
    inner = [n for n in facts.threads.of(OpKind.IF) if n.parent is branch and n.branch == 1]
    tests = [facts.threads.producer(facts.threads.core(n.op.inputs[0])) for n in inner]
    pairs = zip(inner, tests, strict=True)
    asked = [(n, t) for n, t in pairs if t is not None and t.op.kind in COMPARISONS]
    own = [one for n, t in asked if _of_warp(facts, t) for one in (n, t)]
    return [*own, *(one for n, t in asked if t in own for one in _further(facts, n))]


def _writes(region: Region) -> bool:
    return any(op.kind in WRITES | {*_COPIES} for op in walk(region))


def _of_warp(facts: Facts, test: Node) -> bool:
    """Whether the number of a warp, or of a row of threads, is compared with one number."""
    sides = [facts.thread_values.expr(v) for v in test.op.inputs[:2]]
    return any(
        warp.atom is not None and _is_warp(facts, warp.atom) and number.constant is not None
        for warp, number in (sides, sides[::-1])
    )


def _is_warp(facts: Facts, atom: Atom) -> bool:
    if atom.kind is AtomKind.FLOOR_DIV:
        inner = atom.args[0].atom
        return inner is not None and atom.args[1].constant == WARP and _axis(facts, inner) == 0
    return (_axis(facts, atom) or 0) > 0


def _axis(facts: Facts, atom: Atom) -> int | None:
    """The axis of the block along which an atom counts threads, None where it counts none."""
    made = facts.threads.producer(atom.value) if atom.value else None
    if made is None or made.op.kind != OpKind.THREAD_ID:
        return None
    axis = facts.thread_values.literal(made.op.operand("axis"))
    return axis if isinstance(axis, int) else None
