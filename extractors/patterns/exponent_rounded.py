"""Which way the exponent of a scale is rounded that must be a power of two."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_POWER = (
    POINTER
    + """
@triton.jit
def shrink(x, out, scales, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    e = tl.ceil(tl.log2(tl.max(tl.abs(v), axis=0) / 448.0))
    tl.store(scales + tl.program_id(0), (e + 127.0).to(tl.uint8))
    tl.store(out + at, (v * tl.exp2(-e)).to(tl.float8e4nv), mask=at < n)
"""
)
_POWER_TILE = """import cuda.tile as ct
@ct.kernel
def shrink(x, out, scales, T: ct.Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    e = ct.floor(ct.log2(ct.max(ct.abs(v), axis=0) / 448.0))
    ct.scatter(scales, (ct.bid(0),), ct.astype(e + 127.0, ct.uint8))
    ct.store(out, index=(ct.bid(0),), tile=ct.astype(v * ct.exp2(-e), out.dtype))
"""
_POWER_THREADS = """__global__ void shrink(const float* tops, unsigned char* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = (unsigned char)(ceilf(log2f(tops[at] / 448.f)) + 127.f);
}
"""
_MANTISSA = 23
"""Bits below the exponent of a 32-bit float. Source: IEEE 754."""
_REST = (1 << _MANTISSA) - 1
_SEEN_AS = VIEWS | CASTS
_ASKED = _SEEN_AS | COMPARISONS | {OpKind.SELECT}
_BITS = vary(
    _POWER,
    (
        "e = tl.ceil(tl.log2(tl.max(tl.abs(v), axis=0) / 448.0))",
        "b = (tl.max(tl.abs(v), axis=0) / 448.0).to(tl.uint32, bitcast=True)\n"
        "    e = ((b >> 23) & 0xFF) + tl.where((b & 0x7FFFFF) != 0, 1, 0)\n"
        "    e = e.to(tl.float32) - 127.0",
    ),
)
_WAYS = {OpKind.CEIL: "exponent rounded up", OpKind.FLOOR: "exponent rounded down"}


class ExponentRounded(Pattern):
    """A logarithm to the base two of a loaded number is cut to a whole number that reaches what is
    stored."""

    name = "exponent-of-a-scale-cut-to-a-whole-number"
    axis = "rounding_mode"
    source = "OCP Microscaling Formats (MX) Specification 1.0 (2023), section 6.3: E8M0 scales"
    matches = (
        Case(_POWER, "exponent rounded up"),
        Case(_BITS, "exponent rounded up"),
        Case(vary(_BITS, ("((b >> 23) & 0xFF)", "(0xFF & (b >> 23))")), "exponent rounded up"),
        Case(_POWER_TILE, "exponent rounded down"),
        Case(_POWER_THREADS, "exponent rounded up"),
    )
    near_misses = (
        NearMiss(vary(_POWER, ("tl.ceil(tl.log2(", "((")), why="no exponent"),
        NearMiss(vary(_BITS, ("tl.where((b & 0x7FFFFF) != 0, 1, 0)", "1")), why="one more always"),
        NearMiss(_POWER_TILE.replace("ct.floor(ct.log2(", "ct.abs(ct.log2("), why="nothing is cut"),
        NearMiss(_POWER_THREADS.replace("ceilf(log2f(", "((log2f("), why="nothing is cut"),
        NearMiss(PRODUCT, why="there is no scale"),
        NearMiss(PRODUCT_POINTER, why="there is no scale"),
        NearMiss(PRODUCT_THREADS, why="there is no scale"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for kind, value in _WAYS.items():
            found: list[Node] = []
            for cut in facts.graph.of(kind):
                power = facts.graph.producer(facts.graph.core(cut.op.inputs[0]))
                if power is None or power.op.kind != OpKind.LOG2:
                    continue
                if facts.feeding(power.result) and facts.stored_in(cut.result):
                    found += [power, cut]
            found += _raised(facts) if kind == OpKind.CEIL else []
            if found:
                yield self.decide(facts, value, dict.fromkeys(found))


def _raised(facts: Facts) -> list[Node]:
    """The bits of a float from its exponent up, with one added where any bit below is set."""
    found: list[Node] = []
    for total in facts.graph.of(OpKind.ADD):
        for above, below in (total.op.inputs[:2], total.op.inputs[1::-1]):
            shift = facts.graph.producer(facts.graph.through(above, _SEEN_AS))
            if shift is not None and shift.op.kind == OpKind.BIT_AND:
                kept = [v for v in shift.op.inputs[:2] if facts.values.literal(v) is None]
                shift = (
                    facts.graph.producer(facts.graph.through(kept[0], _SEEN_AS)) if kept else None
                )
            if shift is None or shift.op.kind != OpKind.SHIFT_RIGHT:
                continue
            tests = facts.graph.upstream(below, lambda n: n.op.kind not in _ASKED)
            rest = [n for n in tests if _REST in map(facts.values.literal, n.op.inputs[:2])]
            used = any(facts.graph.rests_on(s.value, total) for s in facts.stores)
            if rest and used and facts.values.literal(shift.op.inputs[1]) == _MANTISSA:
                found += [shift, *rest, total]
    return found
