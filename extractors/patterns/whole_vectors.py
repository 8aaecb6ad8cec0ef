"""Vectors that are asked for by their first element: what lies behind the end goes along."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.loops import Loop
from kb.analysis.symbolic import ONE, AtomKind, Expr, mul
from kb.evidence import Decision
from kb.ops import OpKind

_FOUR = """__global__ void twice(const float* x, float* out, int n) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (at < n) {
        float4 v = *reinterpret_cast<const float4*>(x + at);
        v.x *= 2.f; v.y *= 2.f; v.z *= 2.f; v.w *= 2.f;
        *reinterpret_cast<float4*>(out + at) = v;
    }
}
"""
_REST = _FOUR.replace("at < n)", "at + 3 < n)").replace(
    "    }\n}", "    } else {\n        for (int k = at; k < n; ++k) out[k] = x[k] * 2.f;\n    }\n}"
)


_COUNTED = """__global__ void twice(const float* x, float* out, int n) {
    const float4* from = reinterpret_cast<const float4*>(x + blockIdx.x * n);
    float4* to = reinterpret_cast<float4*>(out + blockIdx.x * n);
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
        float4 v = from[i];
        v.x *= 2.f; v.y *= 2.f; v.z *= 2.f; v.w *= 2.f;
        to[i] = v;
    }
}
"""
_SIZED = """template <typename T> __global__ void copy(const T* x, T* out, int n) {
    constexpr int lanes = sizeof(uint4) / sizeof(T);
    const uint4* from = reinterpret_cast<const uint4*>(x + blockIdx.x * n);
    uint4* to = reinterpret_cast<uint4*>(out + blockIdx.x * n);
    const int count = n / lanes;
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}
"""
_STEPS = """__global__ void copy(const float* x, float* out, int n) {
    const float* from = x + blockIdx.x * n;
    float* to = out + blockIdx.x * n;
    for (int i = threadIdx.x * 4; i < n; i += 4 * blockDim.x)
        *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(from + i);
}
"""
_SINGLE = """__global__ void twice(const float* x, float* out, int n) {
    for (int j = 0; j < 4; j++) {
        int at = (blockIdx.x * blockDim.x + threadIdx.x) * 4 + j;
        if (at < n) out[at] = x[at] * 2.f;
    }
}
"""
_STEPS_REST = _STEPS.replace("        *rein", "        if (i + 4 <= n) *rein").replace(
    ";\n}", ";\n        else for (int k = i; k < n; ++k) to[k] = from[k];\n}"
)
_COUNTED_REST = _COUNTED.replace(
    "    }\n}",
    "    }\n    for (int i = n / 4 * 4 + threadIdx.x; i < n; i += blockDim.x)\n"
    "        out[blockIdx.x * n + i] = x[blockIdx.x * n + i] * 2.f;\n}",
)


class WholeVectors(Pattern):
    """A branch holds the first element of a thread's vector below the extent, and the whole vector
    is moved under it; or a loop runs over as many vectors as fill an extent, or by the vectors of
    all threads. Nothing moves single elements of what is left."""

    name = "vectors-guarded-by-their-first-element"
    axis = "tail_handling"
    source = "NVIDIA, CUDA Pro Tip: Increase Performance with Vectorized Memory Access (2013)"
    matches = (
        Case(_FOUR, "none, whole vectors assumed"),
        Case(_COUNTED, "none, whole vectors assumed"),
        Case(_SIZED, "none, whole vectors assumed"),
        Case(_STEPS, "none, whole vectors assumed"),
    )
    near_misses = (
        NearMiss(_COUNTED_REST, why="the rest is moved element by element"),
        NearMiss(_COUNTED.replace("n / 4;", "n;"), why="the extent counts vectors"),
        NearMiss(_SIZED.replace("n / lanes", "n"), why="the extent counts vectors"),
        NearMiss(_SINGLE, why="every element of a thread is asked for by itself"),
        NearMiss(_STEPS_REST, why="the rest is moved element by element"),
        NearMiss(_STEPS.replace("4 * blockDim", "blockDim"), why="vectors overlap"),
        NearMiss(_REST, why="the rest is moved element by element"),
        NearMiss(_FOUR.replace("at < n)", "at + 3 < n)"), why="the last element is asked for"),
        NearMiss(ADD_THREADS, why="single elements"),
        NearMiss(ROW_NORM_THREADS, why="single elements"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        wide = [a for a in facts.accesses if self._elements(facts, a) > 1]
        if not wide or any(self._alone(facts, a, wide) for a in facts.accesses):
            return
        found: list[Where] = []
        for access in wide:
            tests = [t for t in _tests(facts, access) if _first(facts, t, access)]
            found += [access, *tests] if tests else []
        for loop in facts.loops:
            ends = _vectors(facts, loop, wide)
            moved = [a for a in wide if a.node.inside(loop.node)]
            moved = moved if ends else [a for a in moved if _strided(facts, loop, a)]
            found += [*ends, loop.node.head, *moved] if moved else []
        if found:
            yield self.decide(facts, "none, whole vectors assumed", found)

    def _alone(self, facts: Facts, access: Access, wide: list[Access]) -> bool:
        """A single element of an array that vectors are moved of."""
        arrays = {a.array for a in wide}
        return access.array in arrays and self._elements(facts, access) == 1

    def _elements(self, facts: Facts, access: Access) -> int:
        """Neighbours that one thread moves at once: as many as its lanes lie apart."""
        for index in access.index:
            for atom in index.top():
                if atom.kind is AtomKind.LANE and atom.value == "-1":
                    step = index.coefficient(atom)
                    if step.constant is not None:
                        return step.constant
                    known = facts.values.compile_time(step) or _lanes(facts, access, step)
                    return 2 if known and _whole(facts, access) else 0
        return 0


def _whole(facts: Facts, access: Access) -> bool:
    """Whether a thread's own load or store moves several elements by its type."""
    return bool(_shape(facts, access))


def _shape(facts: Facts, access: Access) -> tuple[str, ...]:
    """The extents of what a thread's own load or store moves."""
    made = facts.threads.producer(access.value)
    kinds = [r.type for r in made.op.results if r.name == access.value] if made is not None else []
    return next((kind.shape for kind in kinds if kind is not None), ())


def _lanes(facts: Facts, access: Access, number: Expr) -> bool:
    """True for the number of elements that the type of a vector has."""
    return any(facts.values.expr(extent) == number for extent in _shape(facts, access))


def _vectors(facts: Facts, loop: Loop, wide: list[Access]) -> list[Where]:
    """Where an extent of the launch is divided by a number that is known when the kernel is
    compiled, when the quotient ends a loop."""
    made = facts.graph.producer(facts.graph.core(loop.high)) if loop.high else None
    if made is None or made.op.kind != OpKind.FLOOR_DIV:
        return []
    over, under = (facts.values.expr(v) for v in made.op.inputs[:2])
    known = under.constant is not None or facts.values.compile_time(under)
    known = known or any(_lanes(facts, a, under) for a in wide)
    return [made] if known and under != ONE and _given(over) else []


def _strided(facts: Facts, loop: Loop, access: Access) -> bool:
    """Whether a loop goes on by the vectors of all threads, up to an extent of the launch, and an
    access of every round begins where the own thread does."""
    if loop.induction is None or not loop.high or not loop.step or access.loop is not loop.node:
        return False
    if access.mask is not None or any(n.inside(loop.node) for n in facts.guards(access.node)):
        return False
    round_ = facts.values.expr(loop.induction).atom
    if round_ is None or not _given(facts.values.expr(loop.high)):
        return False
    step = facts.values.expr(loop.step)
    return any(
        atom.kind is AtomKind.LANE
        and index.coefficient(round_) == ONE
        and step == mul(index.coefficient(atom), atom.args[0])
        for index in access.index
        for atom in index.top()
    )


def _tests(facts: Facts, access: Access) -> list[Node]:
    """The comparisons that an access stands under."""
    conditions = [access.mask, *(n.op.inputs[0] for n in facts.guards(access.node))]
    return [t for c in conditions if c is not None for t in comparisons(facts, c)]


def _first(facts: Facts, test: Node, access: Access) -> bool:
    """True when the position of an access, without more, is held below what the launch tells."""
    left, right = sides(facts, test)
    if test.op.kind not in (OpKind.LT, OpKind.GT):
        return False
    own, extent = (left, right) if test.op.kind == OpKind.LT else (right, left)
    if not _given(extent) or _one_by_one(facts, own, access):
        return False
    return any(own == index or _ends(own, index) for index in access.index)


def _one_by_one(facts: Facts, own: Expr, access: Access) -> bool:
    """Whether the tested position goes on by one with the rounds of a loop that moves a single
    element in each."""
    rounds = [facts.values.expr(x.induction).atom for x in facts.loops
              if x.induction is not None and access.node.inside(x.node)]  # fmt: skip
    stepped = any(atom is not None and own.coefficient(atom) == ONE for atom in rounds)
    return stepped and not _whole(facts, access)


def _ends(own: Expr, index: Expr) -> bool:
    """True for a position in a row: all of it is a part of the address."""
    return set(own.terms) <= set(index.terms) and own.constant is None


def _given(extent: Expr) -> bool:
    atom = extent.atom
    return atom is not None and atom.kind is AtomKind.PARAMETER and extent != ONE
