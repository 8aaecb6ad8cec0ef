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
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.normalisations import Normalisation, normalisations
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


class EpsPlacement(Pattern):
    """An addition right below the root, or right above it, or to another divisor; or a lower bound
    of what is divided by or whose logarithm is taken."""

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
        if kept:
            yield self.decide(facts, "after sqrt", [node for pair in kept for node in pair])
        elif not facts.contractions and (added := _in_divisors(facts)):
            yield self.decide(facts, "added to the divisor", added)
        elif not facts.contractions:
            low = [f for f in floors(facts) if _small(f) and not counts(facts, f.bounded)]
            if low:
                yield self.decide(facts, "clamp", [n for f in low for n in (f.node, f.taken)])


def _below(facts: Facts, norm: Normalisation) -> Node | None:
    """What makes the number that a root is taken of."""
    return facts.graph.producer(facts.graph.through(norm.root.op.inputs[0], VIEWS | CASTS))


def _small(floor: Floor) -> bool:
    """A number far below one, or one that is handed in."""
    return floor.number is None or 0 < floor.number < _SMALL


def _divisors(facts: Facts, root: Node) -> list[tuple[Node, Node]]:
    """A root with the addition of a number that no memory holds, where the sum divides."""
    found = []
    for added in facts.graph.users(root.result):
        if added.op.kind != OpKind.ADD:
            continue
        others = [v for v in added.op.inputs[:2] if facts.graph.core(v) != root.result]
        divides = any(
            user.op.kind == OpKind.DIV and facts.graph.core(user.op.inputs[1]) == added.result
            for user in facts.graph.users(added.result)
        )
        if divides and not any(facts.feeding(v) for v in others):
            found.append((root, added))
    return found


def _in_divisors(facts: Facts) -> list[Node]:
    """Additions of a small number, written or handed in, to what divides."""
    found = []
    for node in facts.graph.of(OpKind.DIV):
        added = facts.graph.producer(facts.graph.core(node.op.inputs[1]))
        if added is None or added.op.kind != OpKind.ADD:
            continue
        for number, kept in (added.op.inputs[:2], added.op.inputs[1::-1]):
            value = facts.number(number)
            small = value is not None and 0 < value < _SMALL
            handed = facts.graph.core(number) in facts.graph.function.parameter_names
            if (small or handed) and facts.feeding(kept):
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
