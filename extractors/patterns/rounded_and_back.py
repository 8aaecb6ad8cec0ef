"""Numbers that are rounded to a storage type and go on in 32 bits."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import VIEWS, Node
from kb.analysis.narrowing import RoundTrip, narrow, round_trips, widened
from kb.evidence import Decision
from kb.ops import OpKind

_BACK = (
    POINTER
    + """
@triton.jit
def twice(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    w = tl.load(y + at, mask=at < n).to(tl.float32)
    u = (v * w).to(x.dtype.element_ty).to(tl.float32)
    tl.store(out + at, u * tl.sigmoid(u), mask=at < n)
"""
)
_BACK_TILE = """import cuda.tile as ct
@ct.kernel
def twice(x, y, out, T: ct.Constant[int]):
    v = ct.astype(ct.load(x, index=(ct.bid(0),), shape=(T,)), ct.float32)
    w = ct.astype(ct.load(y, index=(ct.bid(0),), shape=(T,)), ct.float32)
    u = ct.astype(ct.astype(v - w, ct.bfloat16), ct.float32)
    ct.store(out, index=(ct.bid(0),), tile=u * u)
"""
_BACK_THREADS = """#include <cuda_fp16.h>
__global__ void twice(const half* x, const half* y, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    half2 pair = __float22half2_rn(make_float2(__half2float(x[at]) * 3.f, __half2float(y[at])));
    float2 u = __half22float2(pair);
    out[at] = u.x * u.y;
}
"""
_SCALE = (
    POINTER
    + """
@triton.jit
def shrink(x, out, scales, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    s = (tl.max(tl.abs(v), axis=0) / 6.0).to(tl.float8e4nv)
    tl.store(scales + tl.program_id(0), s)
    tl.store(out + at, (v / s.to(tl.float32)).to(tl.int8), mask=at < n)
"""
)
_SUM = vary(
    _BACK,
    ("u = (v * w).to(x.dtype.element_ty).to(tl.float32)",
     "r = (v + w).to(x.dtype.element_ty)\n    tl.store(y + at, r)\n    u = r.to(tl.float32)"),
)  # fmt: skip
_IN_STORAGE = vary(
    _BACK,
    ("mask=at < n).to(tl.float32)\n    w", "mask=at < n)\n    w"),
    ("y + at, mask=at < n).to(tl.float32)", "x + n + at, mask=at < n)"),
    ("(v * w).to(x.dtype.element_ty).to(tl.float32)", "(v * w).to(tl.float32)"),
)
_PAIRS_THREADS = """#include <cuda_fp16.h>
__global__ void twice(const half2* x, const half2* y, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float2 u = __half22float2(__hmul2(x[at], y[at]));
    out[at] = u.x * u.y;
}
"""
_ARITHMETIC = (OpKind.MUL, OpKind.ADD, OpKind.SUB, OpKind.FMA, OpKind.DIV)
_STORAGE = "computed in the storage type, then widened"
_STEP = "rounded before the next step"
_DIVISOR = "scale rounded as it is stored before it divides"


class RoundedAndBack(Pattern):
    """A computed 32-bit float is cast to fewer bits, and nothing but the cast back to 32 bits, and
    perhaps a store, takes what is left of it; or loaded tiles are computed with in a storage type,
    and the result is widened."""

    name = "rounded-and-widened-again"
    axis = "intermediate_dtype"
    source = "Micikevicius et al., Mixed Precision Training (2018); NVIDIA, cuDNN, block scaling"
    matches = (
        Case(_BACK, _STEP),
        Case(_BACK_TILE, _STEP),
        Case(_BACK_THREADS, _STEP),
        Case(_SCALE, _DIVISOR),
        Case(_IN_STORAGE, _STORAGE),
        Case(_PAIRS_THREADS, _STORAGE),
    )
    near_misses = (
        NearMiss(vary(_BACK, (".to(x.dtype.element_ty).to(tl.float32)", "")), why="never narrowed"),
        NearMiss(
            vary(_BACK, (".to(x.dtype.element_ty).to(tl.float32)", ".to(x.dtype.element_ty)")),
            why="what was narrowed goes on as it is",
        ),
        NearMiss(_BACK_TILE.replace("ct.bfloat16), ct.float32", "ct.bfloat16), ct.int32"),
                 why="cut to whole numbers"),
        NearMiss(_BACK_THREADS.replace("__half22float2(pair)", "make_float2(1.f, 1.f)"),
                 why="what was narrowed goes nowhere"),
        NearMiss(_SUM, why="a sum that is stored as it goes on is told as such"),
        NearMiss(
            vary(_IN_STORAGE, ("(v * w).to(tl.float32)", "v.to(tl.float32)")),
            why="what was loaded is widened",
        ),
        NearMiss(PRODUCT, why="nothing is widened again"),
        NearMiss(PRODUCT_POINTER, why="nothing is widened again"),
        NearMiss(PRODUCT_THREADS, why="nothing is widened again"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node]] = {}
        for trip in round_trips(facts):
            if not (trip.stored and self._added(facts, trip)):
                value = _DIVISOR if self._divides(facts, trip) else _STEP
                found.setdefault(value, []).extend([trip.cast, *trip.back])
        for node in facts.graph.of(*_ARITHMETIC):
            if narrow(facts, node) and (back := widened(facts, node)):
                found.setdefault(_STORAGE, []).extend([node, *back])
        for value, nodes in found.items():
            yield self.decide(facts, value, dict.fromkeys(nodes))

    def _added(self, facts: Facts, trip: RoundTrip) -> bool:
        made = facts.graph.producer(facts.graph.through(trip.cast.op.inputs[0], VIEWS))
        return made is not None and made.op.kind in (OpKind.ADD, OpKind.FMA)

    def _divides(self, facts: Facts, trip: RoundTrip) -> bool:
        """Whether a stored number of few bits stands below a division."""
        if not facts.types.dtype(trip.cast.result).startswith(("f8", "f4")):
            return False
        below = [n.op.inputs[1] for n in facts.graph.of(OpKind.DIV)]
        below += [v for n in facts.graph.of(OpKind.INLINE_ASM) for v in n.op.inputs]
        return any(facts.graph.rests_on(v, back) for v in below for back in trip.back)
