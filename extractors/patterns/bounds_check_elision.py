"""A bounds check that the compiler can drop, because a comparison of constants says that nothing
lies outside."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows import ROW_NORM, SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.specialise import branches
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_HANDED = vary(
    SOFTMAX, ("check_bounds=True", "check_bounds=CHECK"), ("T: Int", "T: Int, CHECK: Bool")
)
ELIDED = (
    POINTER
    + """
@triton.jit
def double(x, out, N: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, T)
    row = tl.program_id(0)
    if T == N:
        v = tl.load(x + row * N + at)
    else:
        v = tl.load(x + row * N + at, mask=at < N)
    tl.store(out + row * N + at, v + v, mask=at < N)
"""
)


_LOOKED_UP = vary(
    ELIDED,
    ("        v = tl.load(x + row * N + at)\n", "        v = tl.load(x)\n"),
    ("out + row * N + at, v + v", "out + row * N + at, at * v"),
)
_ELIDED_THREADS = """template <int T, int N>
__global__ void plus(const float* x, float* out) {
    int at = threadIdx.x;
    float v = 0.f;
    if constexpr (T == N) {
        v = x[blockIdx.x * N + at];
    } else {
        if (at < N) v = x[blockIdx.x * N + at];
    }
    if (at < N) out[blockIdx.x * N + at] = v + v;
}
"""

_SIDES = vary(
    _HANDED,
    (
        "        v = ct.astype(ct.gather(x, (row, lanes), check_bounds=CHECK, padding_value=-math.inf), ct.float32)\n",  # noqa: E501
        "        if CHECK:\n            v = ct.gather(x, (row, lanes), padding_value=-math.inf)\n"
        "        else:\n            v = ct.gather(x, (row, lanes), check_bounds=False)\n",
    ),
    ("x.dtype), check_bounds=CHECK)", "x.dtype))"),
)


class BoundsCheckElision(Pattern):
    """The check of an access is a compile-time comparison, or is turned off, other than on one side
    of a compile-time flag."""

    name = "bounds-check-elision-by-constexpr-alignment"
    axis = "boundary_handling"
    source = "cuTile documentation, gather: check_bounds"
    matches = (
        Case(ROW_NORM, "check_bounds = (TILE != N)"),
        Case(_HANDED, "check_bounds = (TILE != N)"),
        Case(
            vary(ROW_NORM, ("inside = T != N", "fits = T == N"), ("=inside", "=not fits")),
            "check_bounds = (TILE != N)",
        ),
        Case(vary(_HANDED, ("=CHECK", "=not CHECK")), "check_bounds = (TILE != N)"),
        Case(vary(SOFTMAX, ("check_bounds=True", "check_bounds=False")), "not needed"),
        Case(ELIDED, "ALIGNED kernel variant"),
        Case(_ELIDED_THREADS, "ALIGNED kernel variant"),
    )
    near_misses = (
        NearMiss(_LOOKED_UP, why="one number of it, or one for each lane: other places are read"),
        NearMiss(
            vary(
                SOFTMAX,
                (
                    "e = ct.exp(v -",
                    "base = ct.gather(x, (row, 0), check_bounds=False)\n"
                    "        e = ct.exp(v - base -",
                ),
            ),
            why="a single number beside the lanes of the row",
            value="not needed",
        ),
        NearMiss(_SIDES, why="a flag chooses: how the tail is handled", value="not needed"),
        NearMiss(SOFTMAX, why="the check is always made"),
        NearMiss(vary(_HANDED, ("CHECK: Bool", "CHECK")), why="chosen at run time"),
        NearMiss(SOFTMAX_POINTER, why="the check is always made"),
        NearMiss(SOFTMAX_THREADS, why="the check is always made"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        elided: list[Where] = []
        off: list[Access] = []
        for access in facts.accesses:
            below = facts.graph.core(access.check_bounds)
            made = turned = facts.graph.producer(below)
            if made is not None and made.op.kind == OpKind.NOT:
                below = facts.graph.core(made.op.inputs[0])
                made = facts.graph.producer(below)
            if made is not None and made.op.kind in COMPARISONS:
                elided += [made, access]
            elif below is not None and below in facts.constexprs:
                elided += [*facts.declared(below), turned, access]
            elif facts.values.literal(access.check_bounds) is False:
                off += [] if _chosen(facts, access) else [access]
        if elided:
            yield self.decide(facts, "check_bounds = (TILE != N)", elided)
        if any(_several(facts, a) for a in facts.accesses):
            off = [a for a in off if _several(facts, a)]
        if off:
            yield self.decide(facts, "not needed", off)
        if variants := [n for branch in facts.graph.of(OpKind.IF) for n in aligned(facts, branch)]:
            yield self.decide(facts, "ALIGNED kernel variant", variants)


def _chosen(facts: Facts, access: Access) -> bool:
    """Whether an access without a check stands on one side of a branch that compile-time parameters
    decide, and one of the same array with a check on the other."""
    around = {n.parent: n.branch for n in (access.node, *access.node.around()) if n.parent}
    for branch in (b.node for b in branches(facts) if b.node in around):
        for other in facts.accesses:
            sides = [n.branch for n in (other.node, *other.node.around()) if n.parent is branch]
            apart = sides and sides[0] != around[branch] and other.array == access.array
            if apart and facts.checked(other):
                return True
    return False


def aligned(facts: Facts, branch: Node) -> list[Node]:
    """Of a branch that compile-time numbers decide, accesses of one array with a mask on one side
    and without one on the other, after the comparison."""
    test = facts.graph.producer(facts.graph.core(branch.op.inputs[0]))
    if test is None or test.op.kind not in COMPARISONS:
        return []
    if not all(facts.values.compile_time(facts.values.expr(v)) for v in test.op.inputs):
        return []
    inside = [a for a in facts.accesses if a.node.parent is branch]
    pairs = [
        (a, b)
        for a in inside
        for b in inside
        if a.node.branch != b.node.branch
        and a.array == b.array
        and facts.types.shape(a.value) == facts.types.shape(b.value)
        and a.mask is None
        and b.mask is not None
    ]
    return [test, *(access.node for pair in pairs for access in pair)] if pairs else []


def _several(facts: Facts, access: Access) -> bool:
    """More than a single number."""
    return any(extent != "1" for extent in facts.types.shape(access.value))
