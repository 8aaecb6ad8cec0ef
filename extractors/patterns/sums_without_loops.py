"""In which precision numbers are held where nothing but elementwise steps, additions written out,
or a largest element are computed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, COPY
from extractors.patterns.cases_rows_threads import COPY_THREADS, SCATTERED
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.fp32_accumulation import Fp32Accumulation
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.idioms import begun
from kb.analysis.loops import Role, updates
from kb.evidence import Decision
from kb.ops import OpKind

_ONCE = (
    POINTER
    + """
@triton.jit
def shift(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(out + at, v * tl.load(y), mask=at < n)
"""
)
_ONCE_TILE = """import cuda.tile as ct
@ct.kernel
def shift(x, out, T: ct.Constant[int]):
    v = ct.astype(ct.load(x, index=(ct.bid(0),), shape=(T,)), ct.float32)
    ct.store(out, index=(ct.bid(0),), tile=v * 2.0)
"""
_CHAIN_THREADS = """#include <cuda_fp16.h>
__global__ void mix(const half* x, const half* y, const half* z, float* out, float a, float b) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = __half2float(x[at]) + a * __half2float(y[at]) + b * __half2float(z[at]);
}
"""
_WHOLE_THREADS = """__global__ void offsets(const int* counts, int* out, int n) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * n;
    int total = 0;
    for (int i = 0; i < n; i++) total += counts[first + i];
    out[first] = total;
}
"""
_LARGEST = (
    POINTER
    + """
@triton.jit
def top(x, out, n, T: tl.constexpr):
    kind = x.type.element_ty
    held = tl.full((T,), -1, dtype=kind)
    for i in range(0, n, T):
        held = tl.maximum(held, tl.load(x + i + tl.arange(0, T)))
    tl.store(out + tl.arange(0, T), held)
"""
)
_IN_MEMORY = "storage dtype, in memory"
_FILLS = frozenset({OpKind.FULL, OpKind.ZEROS, OpKind.ZEROS_LIKE, OpKind.ONES})
_STEPS = frozenset({OpKind.MUL, OpKind.ADD, OpKind.SUB, OpKind.DIV, OpKind.FMA})
_ADDS = frozenset({OpKind.ADD, OpKind.FMA})


class SumsWithoutLoops(Pattern):
    """Where no product, reduction or loop sums up: loaded numbers are widened and computed with;
    a thread adds several of them, written out, or adds them in memory; whole numbers are added up;
    or the largest element is held in the type of its array."""

    name = "precision-where-no-loop-sums"
    axis = "accum_dtype"
    source = "Micikevicius et al., Mixed Precision Training (2018)"
    matches = (
        Case(_ONCE, "fp32"),
        Case(_ONCE_TILE, "fp32"),
        Case(_CHAIN_THREADS, "fp32"),
        Case(_WHOLE_THREADS, "int32"),
        Case(_LARGEST, "storage dtype"),
        Case(SCATTERED, _IN_MEMORY),
        Case(SCATTERED.replace("typename S", "int S").replace("S*", "float*"), "fp32"),
    )
    near_misses = (
        NearMiss(ADD_POINTER, why="added in the type of the arrays"),
        NearMiss(
            vary(_ONCE, ("v * tl.load(y)", "v")), why="cast, nothing is computed"
        ),
        NearMiss(_ONCE_TILE.replace("ct.astype(", "(").replace(", ct.float32)", ")"),
                 why="nothing is widened"),
        NearMiss(_CHAIN_THREADS.replace("float* out", "half* out").replace(
            "__half2float(", "("), why="added in the type of the arrays"),
        NearMiss(_WHOLE_THREADS.replace("counts[first + i]", "i"), why="nothing loaded is added"),
        NearMiss(vary(_LARGEST, ("dtype=kind", "dtype=tl.float32")), why="32 bits",
                 value="storage dtype"),
        NearMiss(SCATTERED.replace("x[i] * 2", "S(1)"), why="counted, nothing loaded is added"),
        NearMiss(SCATTERED.replace("atomicAdd(&out[at[i]], x[i] * 2)", "out[at[i]] = x[i] * 2"),
                 why="nothing is added in memory", value=_IN_MEMORY),
        NearMiss(COPY, why="nothing is computed"),
        NearMiss(COPY_THREADS, why="nothing is computed"),
        NearMiss(PRODUCT, why="a product sums up"),
        NearMiss(PRODUCT_POINTER, why="a product sums up"),
        NearMiss(PRODUCT_THREADS, why="a loop sums up"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or any(True for _ in Fp32Accumulation().seen(facts)):
            return
        found: dict[str, list[Where]] = {}
        for value, where in (*_held(facts), *_whole(facts), *_in_memory(facts)):
            found.setdefault(value, []).extend(where)
        if not found and (wide := _chain(facts) if facts.of_threads else _elementwise(facts)):
            found["fp32"] = [*wide]
        for value, where in found.items():
            yield self.decide(facts, value, dict.fromkeys(where))


def _elementwise(facts: Facts) -> list[Node]:
    """Casts of loaded tiles to 32-bit floats that arithmetic on the way to a store takes in."""
    casts = [n for n in facts.graph.of(*CASTS) if facts.types.dtype(n.result) == "f32"]
    return [
        n
        for n in casts
        if facts.held_loads(n.op.inputs[0])
        and any(u.op.kind in _STEPS and facts.stored_in(u.result)
                for u in facts.graph.downstream(n.result, 24))
    ]  # fmt: skip


def _chain(facts: Facts) -> list[Node]:
    """Additions of 32-bit floats of which one takes in what another gives, both with numbers that
    were loaded."""
    adds = [
        n
        for n in facts.graph.of(*_ADDS)
        if facts.types.dtype(n.result) == "f32"
        and facts.stored_in(n.result)
        and sum(bool(facts.feeding(v)) for v in n.op.inputs) > 1
    ]
    chained = {
        made
        for n in adds
        for v in n.op.inputs
        if (made := facts.graph.producer(facts.graph.plain(v))) in adds
    }
    return [n for n in adds if n in chained or any(
        facts.graph.producer(facts.graph.plain(v)) in chained for v in n.op.inputs)]  # fmt: skip


def _whole(facts: Facts) -> Iterable[tuple[str, list[Where]]]:
    """Sums of loaded whole numbers that a thread carries."""
    for loop in facts.loops if facts.of_threads else ():
        for state in loop.of(Role.SUM, Role.RUNNING_SUM):
            kind = facts.types.dtype(state.next)
            steps = updates(facts.graph, state.argument, state.next)
            added = [n for n in steps if n.op.kind in _ADDS and facts.feeding(n.result)]
            first = facts.graph.producer(begun(facts, state.init))
            if kind in ("i32", "i64") and added and facts.stored_in(state.result):
                yield kind.replace("i", "int"), [first, *added]


def _in_memory(facts: Facts) -> Iterable[tuple[str, list[Where]]]:
    """Loaded floats that threads add in memory."""
    for access in facts.stores if facts.of_threads else ():
        kind = facts.types.dtype(access.value)
        if access.node.op.kind == OpKind.ATOMIC_ADD and facts.feeding(access.value):
            if kind in ("f32", "f64"):
                yield kind.replace("f", "fp"), [access]
            elif kind.startswith("dtypeof") or kind in ("f16", "bf16"):
                yield _IN_MEMORY, [access]


def _held(facts: Facts) -> Iterable[tuple[str, list[Where]]]:
    """Largest elements so far, filled with a number of the type of an array."""
    for loop in facts.loops:
        for state in loop.of(Role.RUNNING_MAXIMUM, Role.RUNNING_MINIMUM, Role.OTHER):
            fill = facts.graph.producer(begun(facts, state.init))
            if fill is None or fill.op.kind not in _FILLS or not facts.feeding(state.next):
                continue
            if facts.types.dtype(fill.result).startswith("dtypeof"):
                steps = updates(facts.graph, state.argument, state.next)
                yield "storage dtype", [fill, *steps[:1]]
