"""How threads that lie outside the problem are kept from working."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_bounds import ROUNDS_THREADS
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.jobs_by_block import of_block
from extractors.patterns.rest_copied import parts_of_rows
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.padded import padded
from kb.analysis.rounds_to_extent import rounds_to_extent
from kb.analysis.steps_past_end import steps_past_end
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.waived import waived_rounds
from kb.evidence import Decision
from kb.ir import Op, walk
from kb.ops import ATOMICS, OWN_THREAD, READS, WRITES, OpKind

AROUND = "branch around the work"
"""What lies outside does none of the work."""

_LEAVES = """__global__ void scale(const float* x, float* out, float by, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    out[at] = x[at] * by;
}
"""
_GROUPS_LEAVE = """template <typename T>
__global__ void groups(const float* x, float* y, unsigned n) {
    const auto at = blockIdx.x * T::kThreads + threadIdx.x;
    if (at / 32 * T::kEach >= n) return;
    const auto item = min(at / T::kLanes, n - 1);
    y[item] = 2.f * x[item];
}
"""
_AROUND = """__global__ void product(const float* a, const float* b, float* c, int M, int N, int K)
{
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    int n = blockIdx.y * blockDim.y + threadIdx.y;
    if (m < M && n < N) {
        float acc = 0.f;
        for (int k = 0; k < K; ++k) acc += a[m * K + k] * b[k * N + n];
        c[m * N + n] = acc;
    }
}
"""
_FIRST = """__global__ void first(const float* x, float* out) {
    float v = x[blockIdx.x];
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
"""
_LEFT = """__global__ void scale(const float* x, float* out, int n) {
    int from = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 4; ++k) {
        int at = from + k * blockDim.x * gridDim.x;
        if (at >= n) break;
        out[at] = x[at] + x[at];
    }
}
"""
_SEARCHED = """__global__ void bias(const int* ends, const float* x, float* out, int n, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, own = 0;
    for (int k = 0; k < count; ++k) {
        if (at >= ends[k] && at < ends[k + 1]) {
            own = k;
            break;
        }
    }
    out[at] = x[own];
}
"""
_ROWS_LEFT = """__global__ void scale(const float* x, float* out, int rows) {
    for (int k = 0; k < 4; ++k) {
        int row = blockIdx.x * 4 + k;
        if (row >= rows) break;
        out[row * blockDim.x + threadIdx.x] = 2.f * x[row * blockDim.x + threadIdx.x];
    }
}
"""

_STAGED = """__global__ void scale(const float* x, float* out, int tiles) {
    for (int tile = 0; tile < tiles; tile += 4) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (tile + k >= tiles) continue;
            int at = ((tile + k) * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
            out[at] = 2.f * x[at];
        }
    }
}
"""
_ROUNDS = "rounds past the end left out"
_ACCESS = "access under a branch"
_COPIED = """__global__ void turn(const float* x, float* out, int n) {
    extern __shared__ float row[];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) __pipeline_memcpy_async(row + threadIdx.x, x + at, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[at] = row[blockDim.x - 1 - threadIdx.x];
}
"""
STORED = "explicit store mask"
"""Told with how stores are clipped, where no branch and no load asks for the same extent."""
_ORDERED = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
_TOUCHING = READS | WRITES | ATOMICS


class ThreadGuard(Pattern):
    """A branch on the own position against an extent: threads outside leave, skip the work, or skip
    an access. One decision, the outermost way, where no lane outside reads a value and no loop of
    the threads ends at the extent."""

    name = "threads-outside-the-problem"
    axis = "boundary_handling"
    source = "CUDA C++ Programming Guide, kernels: a thread beyond the last element does nothing"
    matches = (
        Case(ROUNDS_THREADS, AROUND),
        Case(_LEAVES, "early return"),
        Case(_GROUPS_LEAVE, "early return"),
        Case(_AROUND, AROUND),
        Case(ADD_THREADS, _ACCESS),
        Case(_COPIED, _ACCESS),
        Case(_LEFT, _ROUNDS),
        Case(_ROWS_LEFT, _ROUNDS),
        Case(_STAGED, _ROUNDS),
    )
    near_misses = (
        NearMiss(_SEARCHED, why="rounds look for the segment that a position lies in"),
        NearMiss(
            ROUNDS_THREADS.replace("i < own", "i < 7"),
            why="the rounds are held against a number, no extent of the problem",
        ),
        NearMiss(
            _LEFT.replace("at >= n", "x[at] < 0.f"),
            why="a value ends the loop, not its place",
            value=_ROUNDS,
        ),
        NearMiss(
            _ROWS_LEFT.replace("row >= rows", "k >= rows"),
            why="how many rounds there are, the same for all blocks",
            value=_ROUNDS,
        ),
        NearMiss(
            _STAGED.replace("tile + k >= tiles", "k >= tiles"),
            why="how many steps there are, the same in all rounds",
            value=_ROUNDS,
        ),
        NearMiss(
            _STAGED.replace("out[at] = 2.f * x[at];", "sum += x[at];")
            .replace("tiles) {", "tiles) {\n    float sum = 0.f;", 1)
            .replace("    }\n}", "    }\n    out[blockIdx.x] = sum;\n}"),
            why="nothing is stored there",
            value=_ROUNDS,
        ),
        NearMiss(_FIRST, why="one thread is chosen, nothing lies outside"),
        NearMiss(
            ADD_THREADS.replace("at < n", "at < n && blockIdx.y < 3 * n"),
            why="blocks of one job are told apart",
            value=_ACCESS,
        ),
        NearMiss(ROW_NORM_THREADS, why="lanes outside have a value: told with their padding"),
        NearMiss(PRODUCT_THREADS, why="lanes outside have a value: told with their padding"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        told = told_ways(facts)
        first = next((way for way in told if way != STORED), None)
        if first is not None and not padded(facts) and not ended_rounds(facts):
            nodes = [n for nodes in told.values() for n in nodes]
            yield self.decide(facts, first, [*nodes, *leaving_blocks(facts)])


def told_ways(facts: Facts) -> dict[str, list[Node]]:
    """What is held against one extent is one decision, told of the outermost way."""
    told: dict[str, list[Node]] = {}
    for way, nodes in _ways(facts):
        held = _extents(facts, nodes)
        same = next((k for k, n in told.items() if k != way and held & _extents(facts, n)), way)
        told.setdefault(same, []).extend(nodes)
    return told


def _ways(facts: Facts) -> list[tuple[str, list[Node]]]:
    """Branches and accesses with what they ask, the outermost way first."""
    if not facts.of_threads:
        return []
    leaving: list[tuple[str, list[Node]]] = []
    ended: list[tuple[str, list[Node]]] = []
    around: list[tuple[str, list[Node]]] = []
    under: list[tuple[str, list[Node]]] = []
    for branch in facts.graph.of(OpKind.IF):
        tests = _bounds(facts, branch.op.inputs[0])
        rounds = leaves(branch.op, OpKind.BREAK, OpKind.CONTINUE)
        if rounds:
            tests = tests or _rounds_of_blocks(facts, branch)
            tests = tests if any(_of_round(facts, branch, t) for t in tests) else []
        if not tests or parts_of_rows(facts, branch):
            continue  # Told with what becomes of the rest.
        if leaves(branch.op):
            leaving.append(("early return", [branch, *tests]))
        elif rounds:
            ended.append((_ROUNDS, [branch, *tests]))
        elif any(_TOUCHING & {op.kind for op in walk(r)} for r in branch.op.regions):
            around.append((AROUND, [branch, *tests]))
    ended += [(_ROUNDS, [*pair]) for pair in steps_past_end(facts)]
    around += [(AROUND, [*pair]) for pair in waived_rounds(facts)]
    masked = [a for a in facts.loads if a.mask is not None and not a.padding]
    masked += [a for a in facts.stores if a.is_atomic and a.mask is not None]
    masked = [a for a in masked if not any(of_block(facts, n) for n in comparisons(facts, a.mask))]
    beside = any(a.padding and a.mask is not None for a in facts.loads)
    stores = [] if beside else [a for a in facts.stores if a.mask]
    for way, accesses in ((_ACCESS, masked), (STORED, stores)):
        tested = [(a, _bounds(facts, a.mask)) for a in accesses]
        tested = [(a, t) for a, t in tested if not any(_looks_on(facts, a, n) for n in t)]
        under += [(way, [a.node, *tests]) for a, tests in tested if tests]
    around_copies = ((b, t) for b in _copying(facts) for t in _bounds(facts, b.op.inputs[0]))
    under += [(_ACCESS, [*pair]) for pair in around_copies]
    return [*leaving, *ended, *around, *under]


def _copying(facts: Facts) -> list[Node]:
    """Branches of threads around copies from memory past the registers, in their order."""
    around = {b for n in facts.threads.of(OpKind.ASYNC_COPY) for b in n.around()}
    return sorted((b for b in around if b.op.kind == OpKind.IF), key=lambda n: n.index)


def ended_rounds(facts: Facts) -> list[Node]:
    """Loops of threads that end at the extent, where nothing else asks for a position that the
    block or a round tells, too."""
    return [] if not facts.of_threads or _placed_by_block(facts) else rounds_to_extent(facts)


def _placed_by_block(facts: Facts) -> bool:
    """Whether a branch or an access asks for a position that the block or a round tells, too."""
    tests = [n for _, nodes in _ways(facts) for n in nodes]
    held = [side for n in tests if n.op.kind in _ORDERED for side in sides(facts, n)]
    return any(s.has(AtomKind.LANE) and s.has(AtomKind.BLOCK, AtomKind.INDUCTION) for s in held)


def _extents(facts: Facts, tests: Iterable[Node]) -> set[str]:
    """The names of what the problem gives that own positions are held against."""
    return {
        atom.value
        for test in tests
        if test.op.kind in _ORDERED
        for side in sides(facts, test)
        if not side.has(AtomKind.LANE)
        for atom in side.atoms()
        if _given(atom)
    }


def leaves(op: Op, *by: OpKind) -> bool:
    """True when a side of a branch ends by leaving: the kernel, unless said otherwise."""
    kinds = by or (OpKind.RETURN,)
    return any(r.terminator is not None and r.terminator.kind in kinds for r in op.regions)


def _bounds(facts: Facts, condition: str | None) -> list[Node]:
    """Comparisons of the own position with an extent of the problem."""
    return [
        n
        for n in comparisons(facts, condition)
        if n.op.kind in _ORDERED and _compares(facts, *sides(facts, n))
    ]


def _rounds_of_blocks(facts: Facts, branch: Node) -> list[Node]:
    """Comparisons of what the block and a round place with an extent of the problem."""
    found = []
    begun = {
        facts.values.expr(loop.induction).atom
        for loop in map(facts.loop, branch.loops)
        if loop is not None and facts.values.expr(loop.low).has(AtomKind.BLOCK)
    }
    for test in comparisons(facts, branch.op.inputs[0]):
        pairs = (sides(facts, test), sides(facts, test)[::-1])
        if test.op.kind in _ORDERED and any(
            own.has(AtomKind.INDUCTION)
            and (own.has(AtomKind.BLOCK) or begun & set(own.atoms()))
            and _shared_extent(other)
            for own, other in pairs
        ):
            found.append(test)
    return found


def _of_round(facts: Facts, branch: Node, test: Node) -> bool:
    """Whether the round that is left says the position; where it says what the position is held
    against, a segment is looked for and no end is met."""
    counted = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION)
    own = [v for v in test.op.inputs[:2] if facts.values.expr(v).has(*counted)]
    made = [facts.graph.producer(v) for v in own]
    return any(n is None or (branch.loops and n.inside(branch.loops[-1])) for n in made)


def _looks_on(facts: Facts, access: Access, test: Node) -> bool:
    """Whether an array is read on by what it gave before: a place in it is looked for."""
    given = [a for side in sides(facts, test) for a in side.atoms() if a.kind is AtomKind.LOADED]
    made = [n for a in given if (n := facts.graph.producer(a.value)) is not None]
    return any(one.array == access.array for n in made if (one := facts.access(n)) is not None)


def _shared_extent(extent: Expr) -> bool:
    """An extent that neither blocks nor threads nor rounds count in."""
    counted = (AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION)
    return _extent(extent) and not extent.has(*counted)


def leaving_blocks(facts: Facts) -> list[Node]:
    """Branches by which whole blocks leave whose item lies outside, or that were handed none, or
    that hold all that the kernel writes for the others, with what they ask."""
    found: list[Node] = []
    for branch in facts.graph.of(OpKind.IF):
        if branch.loops or not (leaves(branch.op) or _holds_all(facts, branch)):
            continue
        if not _bounds(facts, branch.op.inputs[0]):
            asked = _of_blocks(facts, branch)
            found += [branch, *asked] if asked else []
    return found


def _holds_all(facts: Facts, branch: Node) -> bool:
    """Whether a branch that all threads of a block take together holds all that they write."""
    alike = not facts.threads.roots(branch.op.inputs[0], *OWN_THREAD)
    return alike and bool(facts.stores) and all(a.node.inside(branch) for a in facts.stores)


def handed_none(facts: Facts, test: Node) -> bool:
    """Whether threads ask if a number that was loaded for the block names anything."""
    asked = facts.of_threads and test.op.kind in _ORDERED
    pairs = (sides(facts, test), sides(facts, test)[::-1]) if asked else ()
    return any(_of_item(facts, own) and _nothing(other) for own, other in pairs)


def _nothing(other: Expr) -> bool:
    """Zero, minus one, or an extent: what a number that names something lies between."""
    apart = not other.has(AtomKind.BLOCK, AtomKind.LANE, AtomKind.LOADED)
    return apart and (other.constant in (0, -1) or _extent(other))


def _of_blocks(facts: Facts, branch: Node) -> list[Node]:
    """Comparisons of the block's own item with an extent, be it a loaded one, or of a number that
    was loaded for it with one, with zero or with minus one."""
    found = []
    for test in comparisons(facts, branch.op.inputs[0]):
        for own, other in (sides(facts, test), sides(facts, test)[::-1]):
            placed = own.has(AtomKind.BLOCK) and not own.has(AtomKind.LOADED, AtomKind.LANE)
            apart = not other.has(AtomKind.BLOCK, AtomKind.LANE)
            if test.op.kind in _ORDERED and placed and apart and _extent(other):
                found.append(test)
        if handed_none(facts, test):
            found.append(test)
    return found


def _of_item(facts: Facts, own: Expr) -> bool:
    """A number that one load brought, from where the block id says."""
    atom = own.atom
    made = facts.graph.producer(atom.value) if atom and atom.kind is AtomKind.LOADED else None
    access = facts.access(made) if made is not None else None
    return access is not None and any(i.has(AtomKind.BLOCK) for i in access.index)


def _compares(facts: Facts, left: Expr, right: Expr) -> bool:
    return any(
        own.has(AtomKind.LANE)
        and not other.has(AtomKind.LANE)
        and _extent(other)
        and not _picks_threads(facts, own, other)
        for own, other in ((left, right), (right, left))
    )


def _picks_threads(facts: Facts, own: Expr, other: Expr) -> bool:
    """The number of a thread below one that is compiled in: so many threads of a block do
    something, and no extent of the problem is met."""
    names = {a.value for a in other.atoms() if a.kind is not AtomKind.EXTENT}
    return own.atom is not None and own.atom.kind is AtomKind.LANE and names <= facts.constexprs


def _extent(expr: Expr) -> bool:
    """Something that the problem gives, not the number of threads."""
    return any(map(_given, expr.atoms()))


def _given(atom: Atom) -> bool:
    known = atom.kind in (AtomKind.PARAMETER, AtomKind.LOADED)
    return known or (atom.kind is AtomKind.EXTENT and bool(atom.value))
