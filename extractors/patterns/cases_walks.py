"""Walks over one row in parts: channels of a group, and a range that two loops share."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_pointer import DECODE_PART

GROUP = (
    TILE
    + """
@ct.kernel
def group(x, w, out, G: Int, S: Int, T: Int, eps: float):
    bat = ct.bid(0)
    grp = ct.bid(1)
    part = ct.full((T,), 0.0, dtype=ct.float32)
    for c in range(G):
        row = bat * S + grp * G + c
        for j in range(ct.cdiv(S, T)):
            at = ct.arange(T, dtype=ct.int32) + j * T
            v = ct.astype(ct.gather(x, (row, at), check_bounds=True, padding_value=0.0), ct.float32)
            part = part + v * v
    r = ct.rsqrt(ct.sum(part, 0, keepdims=False) / S + eps)
    for c in range(G):
        row = bat * S + grp * G + c
        g = ct.astype(ct.load(w, grp * G + c, shape=()), ct.float32)
        for j in range(ct.cdiv(S, T)):
            at = ct.arange(T, dtype=ct.int32) + j * T
            v = ct.astype(ct.gather(x, (row, at), check_bounds=True, padding_value=0.0), ct.float32)
            ct.scatter(out, (row, at), ct.astype(v * r * g, out.dtype), check_bounds=True)
"""
)
"""The root of the mean square of a group of channels, each a row of chunks."""

LINEAR = (
    POINTER
    + """
@triton.jit
def attend(q, k, v, out, size, W: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr):
    m = tl.program_id(0)
    lane = tl.arange(0, W)
    rows = m * TM + tl.arange(0, TM)
    a = tl.load(q + rows[:, None] * W + lane[None, :], mask=rows[:, None] < size, other=0.0)
    acc = tl.zeros([TM, W], dtype=tl.float32)
    for j in range(0, m * TM, TN):
        cols = j + tl.arange(0, TN)
        b = tl.load(k + lane[:, None] + cols[None, :] * W, mask=cols[None, :] < size, other=0.0)
        c = tl.load(v + cols[:, None] * W + lane[None, :], mask=cols[:, None] < size, other=0.0)
        s = tl.dot(a, b)
        acc = tl.dot((s * s).to(c.dtype), c, acc)
    for j in range(m * TM, (m + 1) * TM, TN):
        cols = j + tl.arange(0, TN)
        b = tl.load(k + lane[:, None] + cols[None, :] * W, mask=cols[None, :] < size, other=0.0)
        c = tl.load(v + cols[:, None] * W + lane[None, :], mask=cols[:, None] < size, other=0.0)
        s = tl.dot(a, b)
        s = tl.where(rows[:, None] >= cols[None, :], s * s, 0.0)
        acc = tl.dot(s.to(c.dtype), c, acc)
    to = out + rows[:, None] * W + lane[None, :]
    tl.store(to, acc.to(out.dtype.element_ty), mask=rows[:, None] < size)
"""
)
"""Squared scores times values: keys before the block's own rows, then those beside them."""

LINEAR_APART = vary(LINEAR, ("range(m * TM, (m + 1) * TM, TN)", "range(0, size, TN)"))
"""The second loop begins anew."""

EMPTY_PART = vary(
    DECODE_PART,
    ("    slot = ", "    for _ in range(tl.where(low < high, 1, 0)):\n        slot = "),
    ("    tl.store(out", "        tl.store(out"),
    ("    tl.store(side", "        tl.store(side"),
)
"""A part of the keys that stores nothing where it has none."""

LOSS = (
    POINTER
    + """
@triton.jit
def loss(x, out, side, N, T: tl.constexpr):
    row = tl.program_id(0)
    top = float("-inf")
    tot = 0.0
    mean = 0.0
    for j in range(0, N, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + row * N + at, mask=at < N, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        p = tl.exp(v - new)
        fade = tl.exp(top - new)
        tot = tot * fade + tl.sum(p, axis=0)
        mean = mean * fade + tl.sum(p * tl.where(at < N, v, 0.0), axis=0)
        top = new
    tl.store(out + row, top + tl.log(tot))
    tl.store(side + row, mean / tot)
"""
)
"""Log-sum-exp of a row, and the mean of it under its softmax."""
ROWS_COUNTED_THREADS = """__global__ void remap(const float* x, float* out, const int* to, int w,
                      int h) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * 16;
    if (column >= w) return;
    int at = row * w + column, from = row * w + to[column];
    int end = min(row + 16, h) * w + column;
    while (at < end) {
        out[at] = x[from];
        at += w;
        from += w;
    }
}
"""

ROWS_WALKED = (
    POINTER
    + """
@triton.jit
def rows(x, out, n, m, PER, T: tl.constexpr):
    own = tl.program_id(0)
    at = tl.arange(0, T)
    row = own * PER
    end = (own + 1) * PER
    while (row < end) & (row < n):
        tl.store(out + row * m + at, tl.load(x + row * m + at) * 2.0)
        row += 1
"""
)
"""A block's own rows, or as many as there are left."""
ROWS_WALKED_TILE = (
    TILE
    + """
@ct.kernel
def rows(x, out, n: Int, PER: Int, T: Int):
    own = ct.bid(0)
    end = (own + 1) * PER
    row = own * PER
    while row < end and row < n:
        ct.store(out, index=(row, 0), tile=ct.load(x, index=(row, 0), shape=(1, T)) * 2.0)
        row = row + 1
"""
)

PART = (
    POINTER
    + """
@triton.jit
def scale(x, out, n, k, part, T: tl.constexpr):
    first = tl.program_id(0) * part
    last = tl.minimum(first + part, n)
    for i in range(0, (last - first) * k, T):
        at = i + tl.arange(0, T)
        own = (first + at // k) * k + at % k
        inside = at < (last - first) * k
        tl.store(out + own, 2.0 * tl.load(x + own, mask=inside), mask=inside)
"""
)
"""Rows of a part of the block's own, whose size the launch says, walked as one run of elements."""

ROWS_WALKED_THREADS = """__global__ void widen(const float* x, float* out, int rows, int n) {
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        for (int i = threadIdx.x; i < n; i += 64) out[row * n + i] = x[row * n + i] * 2.f;
    }
}
"""
"""Blocks that walk rows, whose threads walk their elements."""
