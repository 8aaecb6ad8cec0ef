"""In which type parts of a sum meet that several blocks add to one number."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_split import SPLIT
from extractors.patterns.shared_sums import kept_sums
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.splits import pieces
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_PARTS = (
    POINTER
    + """
@triton.jit
def gather(x, total, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.atomic_add(total, tl.sum(v, axis=0).to(total.dtype.element_ty))
"""
)
_PARTS_TILE = (
    TILE
    + """
@ct.kernel
def gather(x, total, T: Int):
    v = ct.astype(ct.load(x, index=(ct.bid(0),), shape=(T,)), ct.float32)
    ct.atomic_add(total, (0,), ct.astype(ct.sum(v, axis=0), total.dtype))
"""
)
_PARTS_THREADS = """#include <cuda_fp16.h>
__global__ void gather(const half* x, half* total, int n) {
    float part = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) part += __half2float(x[blockIdx.x * n + i]);
    atomicAdd(&total[threadIdx.x], __float2half(part));
}
"""
_PARTS_SHARED = """#include <cuda_bf16.h>
__global__ void columns(const float* x, __nv_bfloat16* all, int rows, int cols) {
    extern __shared__ float sums[];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sums[i] = 0.f;
    __syncthreads();
    for (int row = blockIdx.x; row < rows; row += gridDim.x)
        for (int i = threadIdx.x; i < cols; i += blockDim.x) sums[i] += x[row * cols + i];
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        atomicAdd(&all[i], __float2bfloat16(sums[i]));
}
"""


_STORED = vary(SPLIT, ("ct.astype(acc, out.dtype)", "ct.astype(acc, a.dtype)"))


class RoundedPartials(Pattern):
    """A part that was summed in 32 bits is cast to the type of its array right before an atomic
    addition, or before it is stored where a second kernel adds up what the blocks found."""

    name = "partial-sum-rounded-before-the-atomic"
    axis = "intermediate_dtype"
    source = "Higham, Accuracy and Stability of Numerical Algorithms (2002), section 4.2"
    matches = (
        Case(_PARTS, "parts rounded before the atomic addition"),
        Case(_PARTS_TILE, "parts rounded before the atomic addition"),
        Case(_PARTS_THREADS, "parts rounded before the atomic addition"),
        Case(_PARTS_SHARED, "parts rounded before the atomic addition"),
        Case(_STORED, "partial results rounded before they are stored"),
    )
    near_misses = (
        NearMiss(
            vary(_PARTS, (".to(total.dtype.element_ty)", "")), why="the part is added as it is"
        ),
        NearMiss(
            vary(_PARTS, ("total.dtype.element_ty", "tl.float32")), why="the part stays in 32 bits"
        ),
        NearMiss(vary(_PARTS_TILE, ("ct.astype(ct.sum(v, axis=0), total.dtype)", "ct.sum(v, axis=0)")), why="the part is added as it is"),  # noqa: E501
        NearMiss(_PARTS_THREADS.replace("half* total", "float* total").replace("__float2half(part)", "part"), why="the part is added as it is"),  # noqa: E501
        NearMiss(
            vary(_PARTS, ("tl.atomic_add(", "tl.store(")), why="one block writes the number"
        ),
        NearMiss(_PARTS_SHARED.replace("__nv_bfloat16* all", "float* all").replace("__float2bfloat16(sums[i])", "sums[i]"), why="the part is added as it is"),  # noqa: E501
        NearMiss(PRODUCT, why="the whole sum is rounded, once"),
        NearMiss(
            vary(_STORED, ("ct.astype(acc, a.dtype)", "acc")), why="partial results of 32 bits"
        ),
        NearMiss(SPLIT, why="nothing says that the array of partial results has fewer bits"),
        NearMiss(ADD_POINTER, why="nothing is added by several blocks"),
        NearMiss(ROW_NORM, why="nothing is added by several blocks"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        atomics = [a for a in facts.stores if a.is_atomic]
        found: list[Where] = [w for a in atomics for w in self._rounded(facts, a)]
        found += self._from_shared(facts)
        if found:
            yield self.decide(facts, "parts rounded before the atomic addition", found)
            return
        rounded = [s for s in facts.stores if not s.is_atomic and self._as_read(facts, s)]
        apart = [
            store
            for piece in (pieces(facts) if rounded else ())
            for store in piece.slots
            if store in rounded
        ]
        if apart:
            where = [place for store in apart for place in self._rounded(facts, store)]
            yield self.decide(facts, "partial results rounded before they are stored", where)

    def _from_shared(self, facts: Facts) -> list[Where]:
        """Casts of sums that were kept in shared memory, on their way into an atomic."""
        kept = kept_sums(facts)
        if not kept:
            return []
        graph, shared = facts.threads, facts.shared
        places = {shared.place(n.op) for n in kept if n.op.kind != OpKind.ADD}
        found: list[Where] = []
        for atomic in graph.of(OpKind.ATOMIC_ADD, OpKind.ATOMIC_CAS):
            if shared.holds(atomic.op):
                continue
            above = graph.upstream(atomic.op.operand("value") or "", lambda n: n.op.kind in CASTS)
            casts = [n for n in above if n.op.kind in CASTS and _to_short_float(n)]
            read = [graph.producer(n.op.inputs[0]) for n in casts]
            rounds = [
                cast
                for cast, load in zip(casts, read, strict=True)
                if load is not None and load.op.kind == OpKind.LOAD
                if shared.place(load.op) in places
            ]
            found += [*rounds, atomic] if rounds else []
        return list(dict.fromkeys(found))

    def _as_read(self, facts: Facts, store: Access) -> bool:
        """Whether a store rounds to 16 bits, or to the type of an array that is read."""
        read = {f"dtypeof({a.array})" for a in facts.loads}
        return any(
            facts.types.dtype(n.result) in {"f16", "bf16"} | read
            for n in self._rounded(facts, store)
            if isinstance(n, Node)
        )

    def _rounded(self, facts: Facts, atomic: Access) -> list[Node | Access]:
        """Casts of what was summed, with the atomic."""
        casts = [n for n in facts.graph.ends(atomic.value, VIEWS) if n.op.kind in CASTS]
        rounds = [n for n in casts if self._narrows(facts, n)]
        return [*rounds, atomic] if rounds else []

    def _narrows(self, facts: Facts, cast: Node) -> bool:
        """A cast of what was summed to a type that is not known to have 32 bits."""
        dtype = facts.types.dtype(cast.result)
        if dtype in ("f32", "f64") or dtype.startswith(("i", "u")):
            return False
        below = cast.op.inputs[0]
        loops = [loop for loop in facts.loops if facts.graph.rests_on(below, loop.node)]
        return bool(facts.graph.roots(below, *REDUCTIONS)) or bool(loops)


def _to_short_float(cast: Node) -> bool:
    """A cast to a float that is not known to have 32 bits."""
    kind = cast.op.results[0].type
    return kind is not None and kind.dtype.startswith(("f16", "bf16", "dtypeof"))
