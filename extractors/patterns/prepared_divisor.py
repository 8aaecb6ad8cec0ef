"""Whole numbers divided by a divisor that the host has prepared: a multiplication and a shift."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.prepared_quotients import prepared_quotients
from kb.evidence import Decision

PREPARED_THREADS = """#include "divisor.h"
struct Divisor {
    Divisor(int d) : made(d), plain(d) {}
    __device__ void split(unsigned n, unsigned& q, unsigned& r) const {
        q = n / made;
        r = n - q * plain;
    }
    prepared<unsigned> made;
    unsigned plain;
};
__global__ void append(const float* x, float* pages, const int* table, Divisor size, int width) {
    unsigned page, entry;
    size.split(blockIdx.x * blockDim.y + threadIdx.y, page, entry);
    pages[(table[page] * 16 + entry) * width + threadIdx.x] = x[threadIdx.x];
}
"""
_CLASS = """#include "divisor.h"
__global__ void turn(const float* x, float* out, int n, Divisor width) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[(at % width) * n + at / width] = x[at];
}
"""
_ANGLE = """#include "divisor.h"
__global__ void turned(const float* x, float* out, int n, Divisor length, float by) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float angle = (float)(at % length) * by;
    if (at < n) out[at] = x[at] * cosf(angle);
}
"""
_FIELD = """#include "divisor.h"
struct Pages {
    Divisor size;
    int width;
    float* data;
};
__global__ void append(const float* x, const int* ends, Pages pages) {
    unsigned last = ends[blockIdx.x] - 1;
    unsigned entry = last % pages.size;
    pages.data[entry * pages.width + threadIdx.x] = x[threadIdx.x];
}
"""
_HIGH = """__global__ void turn(const float* x, float* out, int n, unsigned by, int shift,
                     int width) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int row = (__umulhi(at, by) + at) >> shift;
    if (at < n) out[(at - row * width) * n + row] = x[at];
}
"""
_HIGH_POINTER = (
    POINTER
    + """
@triton.jit
def turn(x, out, n, by, shift, width, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    row = (tl.umulhi(at, by) + at) >> shift
    tl.store(out + (at - row * width) * n + row, tl.load(x + at, mask=at < n), mask=at < n)
"""
)


class PreparedDivisor(Pattern):
    """A whole number is divided by an argument of a class of its own, or a place in memory is won
    by the upper half of a product with an argument, shifted by another one."""

    name = "integer-division-by-a-prepared-divisor"
    axis = "division_strength"
    source = "Warren, Hacker's Delight (2012), chapter 10: division by what does not change"
    matches = (
        Case(PREPARED_THREADS, "divisor prepared by the host"),
        Case(_CLASS, "divisor prepared by the host"),
        Case(_ANGLE, "divisor prepared by the host"),
        Case(_FIELD, "divisor prepared by the host"),
        Case(_HIGH, "divisor prepared by the host"),
        Case(_HIGH_POINTER, "divisor prepared by the host"),
    )
    near_misses = (
        NearMiss(vary(_CLASS, ("Divisor width", "int width")), why="a plain number divides"),
        NearMiss(vary(_ANGLE, ("Divisor length", "int length")), why="a plain number divides"),
        NearMiss(vary(_FIELD, ("Divisor size", "int size")), why="a plain number divides"),
        NearMiss(vary(_HIGH, ("by) + at) >> shift", "by) + at)")), why="nothing is shifted"),
        NearMiss(
            vary(_HIGH_POINTER, ("(tl.umulhi(at, by) + at) >> shift", "at // width")),
            why="a plain number divides",
        ),
        NearMiss(ADD_POINTER, why="nothing is divided"),
        NearMiss(ADD_THREADS, why="nothing is divided"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        quotients = prepared_quotients(facts)
        if quotients:
            yield self.decide(facts, "divisor prepared by the host", quotients)
