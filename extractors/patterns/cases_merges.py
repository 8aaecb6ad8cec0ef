"""Sample kernels that put partial results of a softmax together. Written for this purpose; none is
somebody else's.
"""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER

MERGE = (
    TILE
    + """
@ct.kernel
def merge(parts, stat, out, S: Int, T: Int):
    b = ct.bid(0)
    d = ct.bid(1)
    v = ct.reshape(ct.load(parts, index=(b, 0, d), shape=(1, S, T)), (S, T))
    lse = ct.gather(stat, (b, ct.arange(S, dtype=ct.int32)), padding_value=-math.inf)
    w = ct.exp2(lse - ct.max(lse))
    acc = ct.sum(v * ct.reshape(w, (S, 1)), axis=0)
    acc = acc / ct.sum(w)
    ct.store(out, index=(b, d), tile=ct.reshape(acc.astype(out.dtype), (1, T)))
"""
)
MERGE_POINTER = (
    POINTER
    + """
@triton.jit
def merge(parts, stat, out, S: tl.constexpr, W: tl.constexpr, T: tl.constexpr):
    b = tl.program_id(0)
    s = tl.arange(0, S)
    d = tl.program_id(1) * T + tl.arange(0, T)
    v = tl.load(parts + (b * S + s)[:, None] * W + d[None, :])
    lse = tl.load(stat + b * S + s)
    w = tl.exp2(lse - tl.max(lse, axis=0))
    acc = tl.sum(v * w[:, None], axis=0)
    acc = acc / tl.sum(w, axis=0)
    tl.store(out + b * W + d, acc.to(out.dtype.element_ty))
"""
)
MERGE_TWICE_POINTER = (
    POINTER
    + """
@triton.jit
def merge(parts, stat, out, count, W: tl.constexpr, T: tl.constexpr):
    b = tl.program_id(0)
    d = tl.arange(0, T)
    top = float("-inf")
    for s in range(count):
        top = tl.maximum(top, tl.load(stat + b * count + s))
    tot = 0.0
    acc = tl.zeros((T,), dtype=tl.float32)
    for s in range(count):
        w = tl.exp((tl.load(stat + b * count + s) - top))
        tot += w
        acc += tl.load(parts + (b * count + s) * W + d, mask=d < W) * w
    acc = acc / tot
    tl.store(out + b * W + d, acc.to(out.dtype.element_ty), mask=d < W)
"""
)
"""The greatest statistic is known before the parts are weighed."""
MERGE_LOGARITHM_POINTER = vary(
    MERGE_POINTER,
    (
        "    w = tl.exp2(lse - tl.max(lse, axis=0))\n",
        "    top = tl.max(lse, axis=0)\n    tot = tl.sum(tl.exp2(lse - top), axis=0)\n"
        "    w = tl.exp2(lse - top - tl.log2(tl.maximum(tot, 1e-30)))\n",
    ),
    ("    acc = acc / tl.sum(w, axis=0)\n", ""),
)
"""The sum of the weights is taken away as a logarithm before they are raised again."""
MERGE_OWN_POINTER = (
    POINTER
    + """
@triton.jit
def correct(part, stat, out, both, mine, count, S: tl.constexpr, T: tl.constexpr):
    b = tl.program_id(0)
    s = tl.arange(0, S)
    d = tl.arange(0, T)
    lse = tl.load(stat + s * count + b)
    lse = tl.where((lse != lse) | (lse == float("inf")), -float("inf"), lse)
    top = tl.max(lse, axis=0)
    joined = tl.log(tl.sum(tl.exp(lse - top), axis=0)) + top
    w = tl.exp(tl.load(stat + mine * count + b) - joined)
    tl.store(both + b, joined)
    tl.store(out + b * T + d, tl.load(part + b * T + d) * w)
"""
)
"""One part of several is weighted by the log-sum-exp of all; others add them up."""
MERGE_SUMS_POINTER = (
    POINTER
    + """
@triton.jit
def join(tops, sums, top, total, S: tl.constexpr):
    b = tl.program_id(0)
    s = tl.arange(0, S)
    m = tl.load(tops + b * S + s)
    z = tl.load(sums + b * S + s)
    most = tl.max(m, axis=0)
    tl.store(top + b, most)
    tl.store(total + b, tl.sum(z * tl.exp(m - most), axis=0))
"""
)
"""Maxima and sums of the pieces of a row become those of the row."""
MERGE_LOOP_POINTER = (
    POINTER
    + """
@triton.jit
def merge(parts, stat, sizes, out, PIECE: tl.constexpr, W: tl.constexpr, T: tl.constexpr):
    b = tl.program_id(0)
    d = tl.arange(0, T)
    count = tl.cdiv(tl.load(sizes + b), PIECE)
    top = -float("inf")
    tot = 0.0
    acc = tl.zeros((T,), dtype=tl.float32)
    for s in range(0, count):
        x = tl.load(stat + b * W + s)
        part = tl.load(parts + (b * W + s) * T + d)
        now = tl.maximum(x, top)
        fade = tl.exp(top - now)
        w = tl.exp(x - now)
        acc = acc * fade + w * part
        tot = tot * fade + w
        top = now
    tl.store(out + b * T + d, acc / tot)
"""
)
"""As many parts as a loaded length has pieces, one after the other."""
MERGE_APART_POINTER = (
    POINTER
    + """
@triton.jit
def merge(parts, tops, sums, out, S: tl.constexpr, T: tl.constexpr):
    b = tl.program_id(0)
    s = tl.arange(0, S)
    d = tl.arange(0, T)
    top = tl.load(tops + b * S + s)
    most = tl.max(top)
    most = tl.where(most > float("-inf"), most, 0.0)
    tot = tl.sum(tl.load(sums + b * S + s) * tl.exp(top - most))
    v = tl.load(parts + (b * S + s)[:, None] * T + d[None, :])
    acc = tl.sum(v * tl.exp(top - most)[:, None], axis=0)
    tl.store(out + b * T + d, tl.where(tot == 0.0, 0.0, acc / tot))
"""
)
"""Maxima and sums of the parts are kept apart."""
WEIGHED_ROWS_POINTER = (
    POINTER
    + """
@triton.jit
def weigh(scores, values, places, out, count, S: tl.constexpr, T: tl.constexpr):
    b = tl.program_id(0)
    d = tl.arange(0, T)
    top = float("-inf")
    tot = 0.0
    acc = tl.zeros((T,), dtype=tl.float32)
    for k in range(0, count, S):
        at = k + tl.arange(0, S)
        row = tl.load(places + b * count + at)
        x = tl.load(scores + b * count + at)
        now = tl.maximum(tl.max(x, 0), top)
        fade = tl.exp(top - now)
        w = tl.exp(x - now)
        tot = tot * fade + tl.sum(w, 0)
        acc = acc * fade + tl.sum(w[:, None] * tl.load(values + row[:, None] * T + d[None, :]), 0)
        top = now
    tl.store(out + b * T + d, acc / tot)
"""
)
"""Attention whose scores are there: its values are fetched one by one."""
MERGE_PAIR_THREADS = """__global__ void join(const float* a, const float* b, const float* la,
                                          const float* lb, float* out, float* stat, int width) {
    int row = blockIdx.x;
    float x = la[row];
    float y = lb[row];
    float top = fmaxf(x, y);
    float wx = exp2f(x - top);
    float wy = exp2f(y - top);
    float tot = wx + wy;
    float r = 1.f / tot;
    int at = row * width + threadIdx.x;
    out[at] = (a[at] * wx + b[at] * wy) * r;
    stat[row] = log2f(tot) + top;
}
"""
"""Two partial results of a row become one, and so do their log-sum-exps."""

MERGE_LOOP_THREADS = """__global__ void join(const float* parts, const float* stats, float* out,
                                          float* stat, int count, int width) {
    int row = blockIdx.x;
    float top = -INFINITY;
    float tot = 0.f;
    float acc = 0.f;
    for (int k = 0; k < count; ++k) {
        float x = stats[row * count + k];
        float now = fmaxf(top, x);
        float fade = exp2f(top - now);
        float w = exp2f(x - now);
        acc = acc * fade + parts[(row * count + k) * width + threadIdx.x] * w;
        tot = tot * fade + w;
        top = now;
    }
    float r = tot > 0.f ? 1.f / tot : 0.f;
    out[row * width + threadIdx.x] = acc * r;
    if (stat != nullptr) stat[row] = top + log2f(tot);
}
"""
"""Any number of partial results of a row become one; a row without any gives zero."""

GATED_THREADS = """__global__ void gated(const float* x, const float* y, float* out, float* side,
                                     int width) {
    int at = blockIdx.x * width + threadIdx.x;
    float top = fmaxf(x[at], 0.f);
    float soft = top + logf(1.f + expf(x[at] - 2.f * top));
    out[at] = y[at] * soft + expf(-y[at]);
    side[blockIdx.x] = soft;
}
"""
"""A softplus gate: exponentials and a logarithm, but no weights of parts."""
MERGED_PAIR = (
    POINTER
    + """
@triton.jit
def merge(x, y, s, t, out, T: tl.constexpr):
    own = tl.program_id(0)
    at = own * T + tl.arange(0, T)
    a = tl.load(s + own)
    b = tl.load(t + own)
    a = float("-inf") if a == float("inf") else a
    top = tl.maximum(a, b)
    p = tl.exp(a - top)
    q = tl.exp(b - top)
    both = (tl.load(x + at) * p + tl.load(y + at) * q) / (p + q)
    tl.store(out + at, tl.where(top == float("-inf"), 0.0, both))
"""
)
"""Two parts merged by their statistics, one of which may be infinite."""

PAIR_POINTER = vary(
    SOFTMAX_POINTER,
    (
        "        y = e / d\n",
        "        y = e\n        tl.store(out - ROWS + row, d)\n"
        "        tl.store(out - 2 * ROWS + row, top)\n",
    ),
    (
        "        e = tl.exp(v - tl.max(v, axis=0))",
        "        top = tl.max(v, axis=0)\n        e = tl.exp(v - top)",
    ),
)
"""Exponentials of resident rows, with their sum and the maximum for another kernel."""
