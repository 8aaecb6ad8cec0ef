"""Exponents and powers of two by the bits of a float, in place of logarithms and exponentials."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.float_bits import exponents_taken, powers_made
from kb.evidence import Decision

UP = (
    POINTER
    + """
@triton.jit
def up(v):
    word = v.to(tl.uint32, bitcast=True)
    e = ((word >> 23) & 0xFF) + tl.where((word & 0x7FFFFF) != 0, 1, 0)
    e = tl.maximum(tl.minimum(e, 254), 97)
    return (e << 23).to(tl.float32, bitcast=True)

@triton.jit
def shrink(x, out, scales, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    s = up(tl.max(tl.abs(v), axis=0) / 448.0)
    tl.store(scales + tl.program_id(0), s)
    tl.store(out + at, (v / s).to(tl.float8e4nv), mask=at < n)
"""
)
_TILE = """import cuda.tile as ct
@ct.kernel
def powers(x, out, T: ct.Constant[int]):
    e = ct.load(x, index=(ct.bid(0),), shape=(T,))
    v = ct.bitcast((ct.astype(e, ct.int32) + 127) << 23, ct.float32)
    ct.store(out, index=(ct.bid(0),), tile=v)
"""
_HALVES = """__global__ void shorten(const float* x, unsigned short* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned word = __float_as_uint(x[at] * x[at]);
    unsigned high = (word >> 23) & 0xff;
    unsigned low = word & 0x7fffff;
    out[at] = word >> 31 << 15 | (high - 112) << 10 | low >> 13;
}
"""


class FloatByBits(Pattern):
    """The exponent is shifted out of the bits of a 32-bit float, or a whole number is shifted to
    the place of the exponent and its bits are taken for a float."""

    name = "exponent-by-the-bits-of-a-float"
    axis = "math_approximation"
    source = "IEEE 754-2019, section 3.4: binary interchange format encodings"
    matches = (
        Case(UP, "exponent by the bits of the float"),
        Case(_TILE, "exponent by the bits of the float"),
        Case(_HALVES.replace(" | low >> 13", ""), "exponent by the bits of the float"),
    )
    near_misses = (
        NearMiss(
            vary(UP, ("v.to(tl.uint32, bitcast=True)", "v.to(tl.uint32)"),
                 ("(e << 23).to(tl.float32, bitcast=True)", "(e << 23).to(tl.float32)")),
            why="numbers are rounded, no bits are kept",
        ),
        NearMiss(
            vary(UP, ("word >> 23", "word >> 16"), ("e << 23", "e << 16")),
            why="upper half of a word, no exponent",
        ),
        NearMiss(_HALVES, why="the number is rounded to fewer bits"),
        NearMiss(PRODUCT, why="no bits are looked at"),
        NearMiss(PRODUCT_THREADS, why="no bits are looked at"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        taken = [n for pair in (*exponents_taken(facts), *powers_made(facts)) for n in pair]
        if taken:
            yield self.decide(facts, "exponent by the bits of the float", taken)
