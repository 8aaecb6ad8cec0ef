"""Loops whose ends a block's own place, a loaded number or an extent clips."""

from __future__ import annotations

from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    POINTER,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, DECODE_PART
from extractors.patterns.cases_split import SPLIT

UNCLIPPED = vary(
    ATTENTION, ("last = ct.cdiv(min(shift + (x + 1) * TM, size), TN)", "last = ct.cdiv(size, TN)")
)


TABLE = "range(tl.load(first + tl.program_id(0)), tl.load(last + tl.program_id(0)))"
LOOKED_UP = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, out, first, last,"),
    ("range(0, tl.cdiv(K, TK))", TABLE),
)
LAST = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, out, lengths,"),
    ("range(0, tl.cdiv(K, TK))", "range(0, tl.load(lengths + tl.program_id(0)))"),
)
WINDOW = vary(
    ATTENTION,
    ("    for j in range(0, last)", "    for j in range(max(0, shift + x * TM - W) // TN, last)"),
)
RAGGED = vary(
    ATTENTION_POINTER,
    (" size, TM", " sizes, TM"),
    ("    rows = ", "    size = tl.load(sizes + y)\n    rows = "),
)
LISTED = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, out, lengths, count,"),
    ("    acc = tl.zeros(", "    for g in range(count):\n     acc = tl.zeros("),
    ("    for t in range(0, tl.cdiv(K, TK))", "     for t in range(0, tl.load(lengths + g))"),
)
DIAGONAL = vary(
    BACKWARD_KEYS_POINTER,
    (
        "for m in range(first, tl.cdiv(size, TM)):",
        "m = x * TN // TM\n        for _ in range(TN // TM):",
    ),
    ("            gk = tl.dot(", "            m += 1\n            gk = tl.dot("),
)
REST = vary(
    DIAGONAL,
    ("for _ in range(TN // TM)", "for _ in range((size - x * TN) // TM)"),
)
STEPS = (
    POINTER
    + """
@triton.jit
def scan(x, out, n, T: tl.constexpr, W: tl.constexpr):
    at = tl.program_id(0) * T
    cols = tl.arange(0, W)
    for i in range(at, tl.minimum(at + T, n)):
        tl.store(out + i * W + cols, tl.load(x + i * W + cols) * 2.0)
"""
)
WRITTEN = (
    POINTER
    + """
@triton.jit
def pairs(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T
    own = tl.load(x + at + tl.arange(0, T))
    for i in range(0, tl.minimum(T, n - at)):
        picked = tl.sum(tl.where(tl.arange(0, T) == i, own, 0.0), axis=0)
        tl.store(out + (at + tl.arange(0, T)) * T + i, own * picked)
"""
)
PIECE = vary(
    SPLIT,
    ("PER: Int)", "PER: Int, size: int)"),
    ("(z + 1) * PER)", "min((z + 1) * PER, size))"),
)
LATER = vary(DECODE_PART, ("low = share * chunk", "low = tl.maximum(share * chunk, count - hop)"))
ALL = vary(
    ATTENTION_POINTER,
    ("tl.minimum((x + 1) * TM, size) if TRI else size", "size"),
    ("        keep = cols[None, :] < size\n", ""),
    ("        if TRI:\n            keep = keep & (rows[:, None] >= cols[None, :])\n", ""),
    ('        s = tl.where(keep, s, float("-inf"))\n', ""),
)
DOWN = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, out, lengths,"),
    ("range(0, tl.cdiv(K, TK))", "range(tl.load(lengths + tl.program_id(0)) - 1, -1, -1)"),
)
TOKENS = (
    POINTER
    + """
@triton.jit
def decay(x, out, lengths, by, W: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, W)
    state = tl.zeros([W], tl.float32)
    for i in range(tl.load(lengths + row)):
        state = state * by + tl.load(x + i * W + cols)
    tl.store(out + row * W + cols, state)
"""
)
LISTED_TILES = vary(
    ATTENTION_POINTER,
    (" size, TM", " tiles, size, TM"),
    ("    rows = ", "    x = tl.load(tiles + x)\n    rows = "),
    ("tl.minimum((x + 1) * TM, size) if TRI else size", "(x + 1) * TM"),
)
BACKWARDS = vary(LISTED_TILES, ("range(0, last, TN)", "range(last - TN, -TN, -TN)"))
SCORES_MASKED = vary(
    ALL,
    (", mask=cols[:, None] < size, other=0.0", ""),
    (
        "        new = ",
        '        s = tl.where(cols[None, :] < size, s, float("-inf"))\n        new = ',
    ),
)
CHUNK_SUM = vary(
    PRODUCT_POINTER,
    (
        "    acc = tl.zeros(",
        "    z = tl.program_id(2)\n    left = tl.minimum(C, K - z * C)\n    acc = tl.zeros(",
    ),
    ("range(0, tl.cdiv(K, TK))", "range(0, tl.cdiv(left, TK))"),
    ("K - t * TK", "left - t * TK"),
    ("(a, b, out,", "(a, b, out, C,"),
    ("pa = a +", "pa = a + tl.program_id(2) * C +"),
    ("pb = b +", "pb = b + tl.program_id(2) * C * sb +"),
    ("out + m", "out + tl.program_id(2) * so * M + m"),
)
"""Products of the chunks of an axis, each one's own, of which the last may be shorter."""

COUNTED_WORK = (
    POINTER
    + """
@triton.jit
def double(x, out, count, width, T: tl.constexpr):
    n = tl.load(count) * width
    for j in range(tl.program_id(0) * T, n, tl.num_programs(0) * T):
        at = j + tl.arange(0, T)
        tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""
)
"""All blocks together walk as far as a loaded number says."""

ROUNDS_THREADS = """template <bool EVEN> __global__ void twice(const float* x, float* out, int n) {
    const int own = (n - 1 - threadIdx.x + blockDim.x) / blockDim.x;
    float v[8], sum = 0.f;
    int at = blockIdx.x * n + threadIdx.x;
    for (int i = 0; i < 8; ++i) {
        if (EVEN || i < own) {
            v[i] = x[at];
            sum += v[i];
            at += blockDim.x;
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""

EXACT_THREADS = """__global__ void plus(const float* x, float* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = x[at] + 1.f;
}
"""
