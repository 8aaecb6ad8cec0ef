"""Whether extents of the problem are known when the kernel is compiled."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT_POINTER
from extractors.patterns.cases_rows import COPY, ROW_NORM
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Lines, Node
from kb.analysis.idioms import sides
from kb.analysis.loops import Loop
from kb.analysis.own_code import own
from kb.analysis.shared import WARP
from kb.analysis.specialise import branches
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import COMPARISONS, OWN_THREAD, OpKind

_USES = COMPARISONS | {OpKind.CEIL_DIV, OpKind.RANGE, OpKind.DIV, OpKind.MINIMUM}
_SINGLE = (
    POINTER
    + """
@triton.jit
def once(x):
    tl.store(x, tl.load(x) + 1)
"""
)


_GIVEN = {
    "constexpr": (ParameterKind.CONSTEXPR,),
    "runtime scalar": (ParameterKind.SCALAR, ParameterKind.UNTOLD),
}
_NOTHING = "none: nothing is compiled in"
_FIRST = ("constexpr", "array.shape", "runtime scalar")

_COMPILED = COMPARISONS | CASTS | {
    OpKind.AND, OpKind.OR, OpKind.NOT, OpKind.CONST, OpKind.DTYPE, OpKind.COPY, OpKind.ADD,
    OpKind.SUB, OpKind.MUL, OpKind.FLOOR_DIV, OpKind.MOD,
}  # fmt: skip
"""What a compiler surely works out of template parameters."""
_PLACES = (*OWN_THREAD, OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.BLOCK_THREADS)
_FLAG = """template <typename T, bool HALF>
__global__ void scale(const T* x, T* out, int n, bool twice) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) {
        T v = x[at];
        if constexpr (HALF) {
            v = v * T(0.5f);
        }
        if (twice) {
            v = v + v;
        }
        out[at] = v;
    }
}
"""
_BARE = """__global__ void twice(const float* x, float* out) {
    out[threadIdx.x] = 2.f * x[threadIdx.x];
}
"""
_TRAITS = """template <typename P>
__global__ void twice(const float* x, float* out) {
    constexpr int rows = P::ROWS;
    for (int row = 0; row < rows; ++row)
        out[row * 32 + threadIdx.x] = 2.f * x[row * 32 + threadIdx.x];
}
"""


_IN_HELPER = _FLAG.replace(
    "template <typename T, bool HALF>\n",
    """template <bool HALF>
__device__ float halved(float v) {
    if constexpr (HALF) {
        v = v * 0.5f;
    }
    return v;
}
template <typename T, bool HALF>
""",
).replace(
    """        if constexpr (HALF) {
            v = v * T(0.5f);
        }
""",
    "        v = halved<HALF>(v);\n",
)


_IN_STRUCT = """struct Given { const float* x; float* out; int n; };
__global__ void twice(const Given given) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < given.n; i += gridDim.x * blockDim.x)
        given.out[i] = 2.f * given.x[i];
}
"""


_WRITTEN = """__global__ void twice(const float* x, float* out) {
    for (int i = 0; i < 4; ++i) {
        int at = i * 256 + threadIdx.x;
        if (at < 1000) out[blockIdx.x * 1000 + at] = 2.f * x[blockIdx.x * 1000 + at];
    }
}
"""


_ROUNDS = """__global__ void sums(const float* x, float* out) {
    float sum = 0.f;
    for (int i = 0; i < 6; ++i) sum += x[blockIdx.x * 768 + i * 128 + threadIdx.x];
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
"""


class ProblemExtents(Pattern):
    """A bound of a loop or a mask is a compile-time constant, else an extent of an array, else a
    runtime scalar; what else is compiled in is shown with it, or that nothing is."""

    name = "problem-extents-as-compile-time-constants"
    axis = "specialization"
    source = "cuTile documentation, Constant; Triton documentation, tl.constexpr"
    matches = (
        Case(ATTENTION, "array.shape"),
        Case(ROW_NORM, "constexpr"),
        Case(PRODUCT_POINTER, "runtime scalar"),
        Case(COPY, "constexpr"),
        Case(ROW_NORM_THREADS, "runtime scalar"),
        Case(_FLAG, "runtime scalar"),
        Case(_IN_HELPER, "runtime scalar"),
        Case(_TRAITS, "constexpr"),
        Case(_IN_STRUCT, "runtime scalar"),
        Case(_BARE, _NOTHING),
        Case(_WRITTEN, "constexpr"),
        Case(_ROUNDS, "constexpr"),
    )
    near_misses = (
        NearMiss(
            _BARE.replace("2.f", "Unheard::FACTOR"),
            why="who knows what it stands for",
        ),
        NearMiss(
            "template <int N>\n" + _BARE.replace("2.f", "N"),
            why="a number is compiled in",
            value=_NOTHING,
        ),
        NearMiss(_ROUNDS, why="the length of a row is compiled in", value=_NOTHING),
        NearMiss(
            _ROUNDS.replace("i * 128 + threadIdx.x", "threadIdx.x * 6 + i"),
            why="so many elements are a thread's",
            value="constexpr",
        ),
        NearMiss(_WRITTEN, why="the extent of a row is compiled in", value=_NOTHING),
        NearMiss(COPY, why="no extent is read", value="runtime scalar"),
        NearMiss(_SINGLE, why="one number is read and written, nothing is fixed beforehand"),
        NearMiss(ADD_THREADS, why="no extent is fixed beforehand", value="constexpr"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        places: dict[str, list[Where]] = {}
        names: dict[str, set[str]] = {}
        for value, kinds in _GIVEN.items():
            given = {p.name for p in facts.kernel.entry.parameters if p.kind in kinds}
            extents = given - facts.tile_extents
            where = [
                n
                for n in facts.graph.nodes
                if n.op.kind in _USES and self._extent(facts, n, extents)
            ]
            if where:
                read = self._read(facts, where, extents)
                places[value] = [*where, *facts.declared(*read)]
                names[value] = read
        shapes = facts.graph.of(OpKind.SHAPE, OpKind.NUM_TILES)
        if shapes:
            places["array.shape"] = [*shapes]
        fixed = facts.declared(*facts.constexprs) or _all_at_run_time(facts)
        if not places and not fixed:
            return
        fixed += [n.lines for n in facts.graph.of(OpKind.ASSUME)]
        if facts.of_threads:
            kept = [*_chosen(facts), *_of_templates(facts)]
        else:
            kept = [b.node for b in branches(facts)]
        fixed += [n.lines for n in kept]
        if facts.of_threads and not facts.constexprs:
            fixed += _by_modes(facts, {name for read in names.values() for name in read})
        ends = [] if facts.constexprs or places else _ends_written(facts)
        fixed += ends
        rest = "constexpr" if facts.constexprs or ends else _NOTHING
        value = next((v for v in _FIRST if v in places), rest)
        everywhere = [place for found in places.values() for place in found]
        named = ", ".join(sorted(names.get(value, ()))) or None
        yield self.decide(facts, value, [*everywhere, *fixed], named)

    def _read(self, facts: Facts, where: list[Node], names: set[str]) -> set[str]:
        """The names that bounds and comparisons read."""
        atoms = [a for n in where for v in n.op.inputs for a in facts.values.expr(v).atoms()]
        return {a.value for a in atoms if a.kind is AtomKind.PARAMETER} & names

    def _extent(self, facts: Facts, node: Node, names: set[str]) -> bool:
        """True when one side is a parameter by itself, or one less a multiple, and the other
        counts positions."""
        for value in node.op.inputs:
            expr = facts.values.expr(value)
            alone = [f[0] for f, n in expr.terms if n == 1 and len(f) == 1]
            if expr.atom is None and node.op.kind not in COMPARISONS:
                continue
            if len(expr.terms) == 1 and node.op.kind in COMPARISONS:
                factors = expr.terms[0][0]
                sizes = [a for a in factors if a.kind is AtomKind.PARAMETER and a.value in names]
                alone += sizes if len(sizes) == len(factors) else []
            if any(a.kind is AtomKind.PARAMETER and a.value in names for a in alone):
                if expr.has(AtomKind.LANE):
                    continue
                others = [facts.values.expr(v) for v in node.op.inputs if v != value]
                if node.op.kind not in COMPARISONS or any(
                    o.has(AtomKind.LANE, AtomKind.INDUCTION) for o in others
                ):
                    return True
                if any(o.atom is not None and o.atom.value in facts.tile_extents for o in others):
                    return True
        return False


_MODES = frozenset({"i8", "u8", "i32", "u32", "i64", "u64"})
"""Types of numbers that may stand for one way or another."""


def _all_at_run_time(facts: Facts) -> list[Lines]:
    """Of threads that are no template: the parameters, none of which is compiled in."""
    entry = facts.kernel.entry
    open_names = any(not n.op.inputs for n in facts.threads.of(OpKind.OPAQUE))
    if not facts.of_threads or open_names or not entry.parameters:
        return []
    return [(line, line) for line in (entry.span.line, *(p.span.line for p in entry.parameters))]


def _by_modes(facts: Facts, extents: set[str]) -> list[Lines]:
    """Of threads that are no template: branches of the kernel that a whole number of the call, no
    extent, chooses, where several values of it are asked for."""
    entry, graph = facts.kernel.entry, facts.threads
    given = {p.name for p in entry.parameters if p.annotation in _MODES} - extents
    asked: dict[str, list[tuple[object, Lines]]] = {}
    for branch in graph.of(OpKind.IF):
        test = graph.producer(graph.core(branch.op.inputs[0]))
        if branch.op.span.path != entry.span.path or test is None or test.op.kind != OpKind.EQ:
            continue
        for one, other in (test.op.inputs[:2], test.op.inputs[1::-1]):
            name, number = graph.core(one) or "", facts.number(other)
            if name in given and number is not None:
                asked.setdefault(name, []).append((number, branch.op.span.head))
    several = [rows for rows in asked.values() if len({number for number, _ in rows}) > 1]
    return [lines for rows in several for _, lines in rows]


def _ends_written(facts: Facts) -> list[Lines]:
    """Of threads: comparisons of a position with a number, where a round or the block tells the
    position, too: no threads are picked, an extent of the problem stands in the text; or rounds of
    all threads, so many as stand there."""
    found: list[Lines] = []
    for node in facts.graph.of(*COMPARISONS) if facts.of_threads else ():
        one, other = sides(facts, node)
        for place, end in ((one, other), (other, one)):
            placed = place.has(AtomKind.LANE) and place.has(AtomKind.INDUCTION, AtomKind.BLOCK)
            if placed and place.atom is None and end.constant is not None:
                found.append(node.lines)
    rounds = facts.loops if facts.of_threads else ()
    return [*found, *(loop.node.head for loop in rounds if _rounds_written(facts, loop))]


def _rounds_written(facts: Facts, loop: Loop) -> bool:
    """Whether so many rounds as stand in the text step over all threads of a block."""
    if loop.high is None or facts.values.expr(loop.high).constant is None:
        return False
    step = facts.values.expr(loop.induction).atom
    if step is None:
        return False
    for index in (i for a in facts.loads if a.node.inside(loop.node) for i in a.index):
        lanes = [index.coefficient(a).constant for a in index.top() if a.kind is AtomKind.LANE]
        by = index.coefficient(step).constant if step in index.top() else None
        if by and any(lane and by >= WARP * lane for lane in lanes):
            return True
    return False


def _of_templates(facts: Facts) -> list[Node]:
    """Of threads: where the kernel itself reads a constant of a type that its template leaves open,
    for the first time."""
    home = facts.kernel.entry.span.path
    first: dict[tuple[str, object], Node] = {}
    for node in facts.threads.of(OpKind.ATTRIBUTE) if facts.of_threads else ():
        mine = own(facts, node.op) and node.op.span.path == home
        if mine and node.op.inputs[0] in facts.constexprs:
            first.setdefault((node.op.inputs[0], node.op.attribute("name")), node)
    return [*first.values()]


def _chosen(facts: Facts) -> list[Node]:
    """Of threads: branches of the kernel and of helpers in its file, of which the compiler keeps
    one side for what the parameters of the template are."""
    entry = facts.kernel.entry
    found = []
    for branch in facts.threads.of(OpKind.IF):
        span = branch.op.span
        if span.path != entry.span.path or span.end_line <= span.line:
            continue  # what a header of another file asks stands in one line
        value = branch.op.inputs[0]
        made = list(facts.threads.upstream(value))
        asked = [n for n in made if n.op.kind == OpKind.OPAQUE]
        if all(n.op.kind in _COMPILED or not n.op.inputs for n in made) and not any(
            n.op.kind in _PLACES for n in made
        ):
            read = {value, *(v for n in made for v in n.op.inputs)}
            given = read & set(entry.parameter_names)
            if given <= facts.constexprs and (given or asked):
                found.append(branch)
    return found
