"""Where the small number that keeps a root from zero is added."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_norms_threads import NORM_ALONE_THREADS
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, ROW_NORM, RUNNING_NORM
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.floors import Floor, counts, floors
from kb.analysis.graph import CASTS, LOOPS, VIEWS, Node
from kb.analysis.idioms import begun as first_value
from kb.analysis.loops import Role, updates
from kb.analysis.normalisations import Normalisation, normalisations
from kb.dtypes import is_float
from kb.evidence import Decision
from kb.ops import READS, REDUCTIONS, OpKind

_STEP = (
    POINTER
    + """
@triton.jit
def step(p, first, second, n, rate, eps, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    m = tl.load(first + at, mask=at < n)
    v = tl.load(second + at, mask=at < n)
    old = tl.load(p + at, mask=at < n)
    tl.store(p + at, old - rate * (m / (tl.sqrt(v) + eps)), mask=at < n)
"""
)
_STEP_THREADS = """__global__ void step(float* p, const float* m, const float* v, int n, float e) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) p[at] -= m[at] / (sqrtf(v[at]) + e);
}
"""
_SMALL = 1e-2
_ON = VIEWS | CASTS | {OpKind.SELECT}
_REACH = 12
"""Values between a root and what is divided by it."""
_UNIT = (
    POINTER
    + """
@triton.jit
def unit(x, out, n, eps, T: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, T)
    v = tl.load(x + at)
    tl.store(out + at, v / (tl.sum(v, axis=0) + eps))
"""
)
_LOGARITHM = (
    POINTER
    + """
@triton.jit
def surprise(x, out, n, eps, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, v * tl.log(tl.maximum(v, eps)), mask=at < n)
"""
)
_LARGEST = (
    TILE
    + """
@ct.kernel
def scale(x, out, T: Int):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    top = ct.maximum(ct.max(ct.abs(v), axis=0), 1e-10) / 448.0
    ct.store(out, index=(ct.bid(0),), tile=v / top)
"""
)
_CLAMPED = (
    POINTER
    + """
@triton.jit
def scale(x, out, n, low, T: tl.constexpr, HALF: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    top = tl.max(tl.abs(v), axis=0)
    top = tl.clamp(top, low, 1e30)
    if HALF:
        by = top * 0.5
    else:
        by = top
    tl.store(out + at, v / by, mask=at < n)
"""
)
_FILLED = (
    TILE
    + """
@ct.kernel
def surprise(x, out, T: Int, small: float):
    floor = ct.full((T,), small, dtype=ct.float32)
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    ct.store(out, index=(ct.bid(0),), tile=v * ct.log(ct.maximum(v, floor)))
"""
)
_LOGARITHM_THREADS = """__global__ void surprise(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] * logf(fmaxf(x[at], 1e-8f));
}
"""
_BOUND = "tl.clamp(top, low, 1e30)"
_EITHER = """__global__ void step(float* p, const float* m, const float* v, int n, float e,
                     int mode) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float by;
    if (mode == 0) by = sqrtf(v[at] + e);
    else by = sqrtf(v[at]) + e;
    p[at] -= m[at] / by;
}
"""
_SHARE = """struct Asked { const float* x; float* out; int n; float small; };
__global__ void share(Asked asked) {
    float v = asked.x[blockIdx.x * 32 + threadIdx.x];
    float sum = __reduce_add_sync(0xffffffff, v);
    asked.out[blockIdx.x * 32 + threadIdx.x] = v / (sum + asked.small);
}
"""
_LEAST = """__global__ void scale(const float* x, float* out, int n, float low) {
    float top = low;
    for (int i = 0; i < n; ++i) top = fmaxf(top, fabsf(x[threadIdx.x * n + i]));
    out[threadIdx.x] = top / 448.f;
}
"""


class EpsPlacement(Pattern):
    """An addition right below the root, or right above it, or to another divisor; or a lower bound
    of what is divided by or whose logarithm is taken, or that the largest size begins with."""

    name = "epsilon-inside-the-root"
    axis = "eps_placement"
    source = "Ba et al., Layer Normalization (2016); framework reference of layer_norm"
    matches = (
        Case(NORM_ALONE_THREADS, "inside rsqrt"),
        Case(ROW_NORM, "inside rsqrt"),
        Case(LAYER_NORM_POINTER, "inside rsqrt"),
        Case(
            vary(LAYER_NORM_POINTER, ("tl.rsqrt(var + eps)", "1.0 / (tl.sqrt(var) + eps)")),
            "after sqrt",
        ),
        Case(ROW_NORM_THREADS, "inside rsqrt"),
        Case(RUNNING_NORM, "inside rsqrt"),
        Case(_STEP, "after sqrt"),
        Case(_STEP_THREADS, "after sqrt"),
        Case(_UNIT, "added to the divisor"),
        Case(vary(_UNIT, ("+ eps)", "+ 1e-6)")), "added to the divisor"),
        Case(_LOGARITHM, "clamp"),
        Case(_LARGEST, "clamp"),
        Case(_FILLED, "clamp"),
        Case(_CLAMPED, "clamp"),
        Case(vary(_CLAMPED, (_BOUND, "tl.where(top > 1e-8, top, 1e-8)")), "clamp"),
        Case(vary(_CLAMPED, (_BOUND, "tl.where(top < 1e-8, 1e-8, top)")), "clamp"),
        Case(_LOGARITHM_THREADS, "clamp"),
        Case(_EITHER, "inside rsqrt"),
        Case(_EITHER, "after sqrt"),
        Case(_SHARE, "added to the divisor"),
        Case(_LEAST, "clamp"),
        Case(_LEAST.replace("float top = low", "float top = 1e-6f"), "clamp"),
        Case(
            vary(LAYER_NORM_POINTER, ("tl.rsqrt(var + eps)", "tl.rsqrt(tl.maximum(var, eps))")),
            "clamp",
        ),
    )
    near_misses = (
        NearMiss(_STEP.replace("+ eps)", "+ m)"), why="what is added was loaded, too"),
        NearMiss(vary(_UNIT, ("+ eps)", "+ 1.0)")), why="one is no small number"),
        NearMiss(
            _STEP_THREADS.replace("m[at] /", "m[at] *"), why="the root multiplies, nothing divides"
        ),
        NearMiss(
            vary(
                RUNNING_NORM,
                ("tl.rsqrt(tl.load(squares + row % C) + eps)", "tl.load(squares + row % C) + eps"),
            ),
            why="a number is added to what is loaded, no root is taken",
        ),
        NearMiss(
            vary(_CLAMPED, (_BOUND, "tl.where(top < 1e-8, top, 1e-8)")), why="the smaller is kept"
        ),
        NearMiss(
            vary(_CLAMPED, (_BOUND, "tl.clamp(top, 8.0, 1e30)")),
            why="no small number",
        ),
        NearMiss(
            _EITHER.replace("m[at] / by", "m[at] * by"), why="the root multiplies, nothing divides"
        ),
        NearMiss(_SHARE.replace("float small", "int small"), why="a count is added"),
        NearMiss(
            _LEAST.replace("fabsf(x[threadIdx.x * n + i])", "x[threadIdx.x * n + i]"),
            why="the largest of signed numbers, which begins with one of them",
        ),
        NearMiss(_LEAST.replace("float top = low", "float top = 0.f"), why="begins with zero"),
        NearMiss(PRODUCT, why="no root"),
        NearMiss(vary(ROW_NORM, (" / N + eps)", " / N)")), why="nothing is added"),
        NearMiss(PRODUCT_POINTER, why="no root"),
        NearMiss(PRODUCT_THREADS, why="no root"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        norms = normalisations(facts)
        for norm in norms:
            below = _below(facts, norm)
            if below is not None and below.op.kind == OpKind.ADD:
                alike = [(b, n) for n in norms if (b := _below(facts, n)) and b.kind == OpKind.ADD]
                inside = [x for b, n in alike for x in (b, n.root, *_widened(facts, b))]
                yield self.decide(facts, "inside rsqrt", inside)
                return
            if below is not None and below.op.kind == OpKind.MAXIMUM:
                yield self.decide(facts, "clamp", (below, norm.root))
                return
            after = [
                n for n in facts.graph.downstream(norm.root.result, 8) if n.op.kind == OpKind.ADD
            ]
            if after and norm.root.op.kind == OpKind.SQRT:
                yield self.decide(facts, "after sqrt", (norm.root, after[0]))
                return
        kept = [pair for root in facts.graph.of(OpKind.SQRT) for pair in _divisors(facts, root)]
        inside = _in_roots(facts)
        if kept:
            yield self.decide(facts, "after sqrt", [node for pair in kept for node in pair])
        if inside:
            yield self.decide(facts, "inside rsqrt", inside)
        if kept or inside:
            return
        if not facts.contractions and (added := _in_divisors(facts)):
            yield self.decide(facts, "added to the divisor", added)
        elif not facts.contractions:
            low = [f for f in floors(facts) if _small(f) and not counts(facts, f.bounded)]
            bounds = [n for f in low for n in (f.node, f.taken)]
            bounds += _least_sizes(facts)
            if bounds:
                yield self.decide(facts, "clamp", bounds)


def _below(facts: Facts, norm: Normalisation) -> Node | None:
    """What makes the number that a root is taken of."""
    return facts.graph.producer(facts.graph.through(norm.root.op.inputs[0], VIEWS | CASTS))


def _small(floor: Floor) -> bool:
    """A number far below one, or one that is handed in."""
    return floor.number is None or 0 < floor.number < _SMALL


def _divisors(facts: Facts, root: Node) -> list[tuple[Node, Node]]:
    """A root with the addition of a number that no memory holds, where the sum divides."""
    found = []
    users = [*facts.graph.users(root.result)]
    users += [u for n in users if n.op.kind in CASTS for u in facts.graph.users(n.result)]
    for added in users:
        if added.op.kind != OpKind.ADD:
            continue
        others = [v for v in added.op.inputs[:2] if facts.graph.core(v) != root.result]
        if _divides(facts, added.result) and not any(facts.feeding(v) for v in others):
            found.append((root, added))
    return found


def _divides(facts: Facts, value: str) -> bool:
    """Whether something is divided by a value, as it is, cast, or where a branch chose it."""
    pending = [value]
    for current in pending:
        for user in facts.graph.users(current):
            if user.op.kind == OpKind.DIV and user.op.inputs[1] == current:
                return True
            branch = user.op.kind == OpKind.YIELD and user.parent is not None
            if branch and user.parent is not None and user.parent.op.kind in LOOPS:
                continue
            if (branch or user.op.kind in _ON) and len(pending) < _REACH:
                pending += [v for v in facts.graph.onward(user, current) if v not in pending]
    return False


def _in_roots(facts: Facts) -> list[Node]:
    """Roots of what memory holds plus a number that it does not, where something is divided by the
    root."""
    found = []
    for root in facts.graph.of(OpKind.SQRT, OpKind.RSQRT):
        added = facts.graph.producer(facts.graph.through(root.op.inputs[0], VIEWS | CASTS))
        if added is None or added.op.kind != OpKind.ADD:
            continue
        for number, kept in (added.op.inputs[:2], added.op.inputs[1::-1]):
            taken = root.op.kind == OpKind.RSQRT or _divides(facts, root.result)
            if taken and _small_number(facts, number) and facts.feeding(kept):
                found += [added, root]
    return found


def _small_number(facts: Facts, value: str) -> bool:
    """A small number that is written down, or one that is handed in, in a struct perhaps."""
    number = facts.number(value)
    if number is not None:
        return 0 < number < _SMALL
    core = facts.graph.core(value)
    made = facts.graph.producer(core)
    of_struct = made is not None and made.op.kind == OpKind.ATTRIBUTE
    handed = facts.graph.core(made.op.inputs[0]) if made is not None and of_struct else core
    if facts.of_threads and not is_float(facts.types.dtype(core or "")):
        return False
    return handed in facts.graph.function.parameter_names


def _least_sizes(facts: Facts) -> list[Node]:
    """What the largest size of several numbers begins with where that is no zero: the largest can
    be no smaller."""
    found = []
    for loop in facts.loops if facts.of_threads else ():
        for state in loop.of(Role.RUNNING_MAXIMUM):
            begun = first_value(facts, state.init)
            steps = updates(facts.graph, state.argument, state.next)
            largest = [n for n in steps if n.op.kind == OpKind.MAXIMUM]
            sizes = any(
                facts.graph.kind_of(facts.graph.core(v)) == OpKind.ABS
                for n in largest
                for v in n.op.inputs
            )
            if sizes and is_float(facts.types.dtype(begun)) and _small_number(facts, begun):
                first = facts.graph.producer(begun)
                found += [*([first] if first is not None else []), *largest]
    return found


def _in_divisors(facts: Facts) -> list[Node]:
    """Additions of a small number, written or handed in, to what divides."""
    found = []
    for node in facts.graph.of(OpKind.DIV):
        added = facts.graph.producer(facts.graph.core(node.op.inputs[1]))
        if added is None or added.op.kind != OpKind.ADD:
            continue
        for number, kept in (added.op.inputs[:2], added.op.inputs[1::-1]):
            if _small_number(facts, number) and facts.feeding(kept):
                found += [added, node]
    return found


def _widened(facts: Facts, added: Node) -> list[Node]:
    """Casts of the small number itself, which comes from a parameter and no memory."""
    return [
        node
        for value in added.op.inputs[:2]
        for node in facts.graph.upstream(value, lambda n: n.op.kind in REDUCTIONS | READS)
        if node.op.kind in CASTS and not facts.feeding(node.op.inputs[0])
    ]
