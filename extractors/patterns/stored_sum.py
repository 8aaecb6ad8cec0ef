"""Whether a row's statistics are taken of a sum as it was added, or as it is stored."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import UNKNOWN, Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_LOADED = "    v += tl.load(z + row * sx + at, mask=inside, other=0.0)\n"
_KEPT = vary(
    LAYER_NORM_POINTER,
    ("(y, sy, x, sx,", "(y, sy, x, sx, z,"),
    ("    mean = ", _LOADED + "    tl.store(z + row * sx + at, v.to(tl.float16), mask=inside)\n    mean = "),  # noqa: E501
)  # fmt: skip
_ROUNDED = vary(
    LAYER_NORM_POINTER,
    ("(y, sy, x, sx,", "(y, sy, x, sx, z,"),
    ("    mean = ", _LOADED + "    v = v.to(tl.float16)\n    tl.store(z + row * sx + at, v, mask=inside)\n"  # noqa: E501
     "    v = v.to(tl.float32)\n    mean = "),
)  # fmt: skip
_KEPT_TILE = vary(
    ROW_NORM,
    ("norm(x, w,", "norm(x, z, w,"),
    ("    r = ct", "    v = v + ct.gather(z, (row, at), check_bounds=inside)\n"
     "    ct.scatter(z, (row, at), ct.astype(v, z.dtype))\n    r = ct"),
)  # fmt: skip
_KEPT_THREADS = vary(
    ROW_NORM_THREADS,
    ("norm(const half* x,", "norm(const half* x, half* z,"),
    ("    float r =", "    if (at < n) {\n        v += __half2float(z[row * n + at]);\n"
     "        z[row * n + at] = __float2half(v);\n    }\n    float r ="),
)  # fmt: skip
_PACKED_THREADS = vary(
    _KEPT_THREADS,
    ("z[row * n + at] = __float2half(v);",
     "half2 u = __float22half2_rn(make_float2(v, v));\n"
     "        *(unsigned*)(z + row * n + at) = *(unsigned*)&u;"),
)  # fmt: skip
_WORDS_THREADS = """#include <cuda_fp16.h>
__global__ void norm(half* y, half* z, const half* x, const half* w, int n, float eps) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    half held[8], more[8];
    *(uint4*)held = *(const uint4*)(x + at);
    *(uint4*)more = *(const uint4*)(z + at);
    float sum = 0.f;
    for (int i = 0; i < 8; i++) {
        float v = __half2float(held[i]) + __half2float(more[i]);
        held[i] = __float2half(v);
        v = __half2float(held[i]);
        sum += v * v;
    }
    *(uint4*)(z + at) = *(uint4*)held;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    float r = rsqrtf(sum / n + eps);
    for (int i = 0; i < 8; i++) held[i] = __float2half(__half2float(held[i]) * r);
    *(uint4*)(y + at) = *(uint4*)held;
}
"""
_MEAN = "    mean = tl.sum(v, axis=0) / n\n"
_MEAN_FIRST = vary(
    _ROUNDED,
    (_MEAN, ""),
    ("    v = v.to(tl.float16)\n", _MEAN + "    v = v.to(tl.float16)\n"),
)
_UNROUNDED = "sum kept in fp32, rounded where it is stored"
_ROUNDED_FIRST = "sum rounded before the statistics"
_ROUNDED_BETWEEN = "sum rounded before the last statistics"
_LOOKS = VIEWS | TURNS
_SUMS = frozenset({OpKind.ADD, OpKind.FMA})
_WORDS = frozenset({OpKind.BITCAST, OpKind.VECTOR, OpKind.SELECT})
_MOST = 64


class StoredSum(Pattern):
    """A sum of loaded tiles is stored in less than 32 bits, and a reduction that another store
    waits for takes it in: in the 32 bits in which it was added, or after the same rounding."""

    name = "statistics-of-a-stored-sum"
    axis = "intermediate_dtype"
    source = "Hsu et al., Liger Kernel (2024), fused residual addition and normalisation"
    matches = (
        Case(_KEPT, _UNROUNDED),
        Case(_KEPT_TILE, _UNROUNDED),
        Case(_KEPT_THREADS, _UNROUNDED),
        Case(_PACKED_THREADS, _UNROUNDED),
        Case(_ROUNDED, _ROUNDED_FIRST),
        Case(_WORDS_THREADS, _ROUNDED_FIRST),
        Case(_MEAN_FIRST, _ROUNDED_BETWEEN),
    )
    near_misses = (
        NearMiss(
            vary(_KEPT, ("    tl.store(z + row * sx + at, v.to(tl.float16), mask=inside)\n", "")),
            why="the sum is not stored",
        ),
        NearMiss(vary(_KEPT, (_LOADED, "")), why="nothing is added to what is stored again"),
        NearMiss(LAYER_NORM_POINTER, why="the statistics are stored, no sum"),
        NearMiss(ADD_POINTER, why="no statistics are taken of the sum"),
        NearMiss(PRODUCT, why="the sum is a product's"),
        NearMiss(ROW_NORM_THREADS, why="nothing is added to the row"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or not facts.reductions or len(facts.stores) < 2:
            return
        for store in facts.stores:
            if store.is_atomic or not _of_lanes(facts, store):
                continue
            added = [n for n in self._cores(facts, store.value) if self._adds(facts, n)]
            taken = [r for r in facts.reductions if self._takes(facts, r, added, store)]
            if not added or not taken:
                continue
            casts = self._casts(facts, store.value)
            through = [any(facts.graph.rests_on(r.result, c) for c in casts) for r in taken]
            value = _ROUNDED_FIRST if all(through) else _ROUNDED_BETWEEN
            yield self.decide(
                facts, value if any(through) else _UNROUNDED, [*added, *casts, store, *taken]
            )
            return

    def _cores(self, facts: Facts, value: str) -> list[Node]:
        """The operations below casts and reshapes, on every side of a branch or of a choice; of a
        thread also below what puts numbers into one word."""
        return [n for n in self._below(facts, value) if n.op.kind not in CASTS | _WORDS]

    def _casts(self, facts: Facts, value: str) -> list[Node]:
        """Casts of the sum to another type than 32-bit floats, right before a store."""
        found = [n for n in self._below(facts, value) if n.op.kind in CASTS]
        return [n for n in found if not facts.types.wide(n.result)]

    def _below(self, facts: Facts, value: str) -> list[Node]:
        found: list[Node] = []
        for current in (pending := [value]):
            for node in facts.graph.ends(current, _LOOKS):
                if node in found or len(found) > _MOST:
                    continue
                found.append(node)
                if node.op.kind in CASTS:
                    pending += node.op.inputs[:1]
                elif facts.of_threads and node.op.kind in _WORDS:
                    sides = [node.op.operand("x"), node.op.operand("y")]
                    choice = node.op.kind == OpKind.SELECT
                    pending += [v for v in (sides if choice else node.op.inputs) if v is not None]
        return found

    def _adds(self, facts: Facts, node: Node) -> bool:
        """A sum of 32-bit floats of several arrays, or of floats of another type than any array's
        that a thread computes in."""
        arrays = {a.array for a in facts.feeding(node.result)}
        stored = {facts.types.dtype(a.value) for a in facts.accesses}
        own = facts.of_threads and facts.types.dtype(node.result) not in {*stored, UNKNOWN}
        wide = facts.types.wide(node.result) or own
        return node.op.kind in _SUMS and wide and len(arrays) > 1

    def _takes(self, facts: Facts, reduction: Node, added: list[Node], store: Access) -> bool:
        """A reduction of a sum that another store waits for, but not this one."""
        if facts.graph.rests_on(store.value, reduction):
            return False
        waits = any(facts.graph.rests_on(s.value, reduction) for s in facts.stores)
        return waits and any(facts.graph.rests_on(reduction.result, n) for n in added)


def _of_lanes(facts: Facts, store: Access) -> bool:
    """Whether lanes store elements of their own; of words that a thread puts together the place
    alone tells."""
    place = store.node.op.operand("pointer") if facts.of_threads else None
    return bool(facts.types.shape(store.value) or facts.types.shape(place))
