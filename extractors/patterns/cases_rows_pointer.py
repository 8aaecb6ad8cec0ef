# ruff: noqa: E501
"""The sample kernels over rows again, with pointers and masks; and some of the pointer kernels with
tiles of views. Written for this purpose.
"""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE, vary

ROW_NORM_POINTER = (
    POINTER
    + """
@triton.jit
def norm(x, w, out, stat, sx, so, N: tl.constexpr, eps, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    inside = at < N
    v = tl.load(x + row * sx + at, mask=inside, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(v * v, axis=0) / N + eps)
    tl.store(stat + row, r)
    g = tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * so + at, (v * r * g).to(x.dtype.element_ty), mask=inside)
"""
)
"""Root-mean-square normalisation of a row that stays in registers."""

ROW_NORM_CHUNKS_POINTER = (
    POINTER
    + """
@triton.jit
def norm(x, w, out, sx, so, N, eps, T: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, T)
    part = tl.zeros([T], dtype=tl.float32)
    for j in range(0, N, T):
        at = j + lanes
        v = tl.load(x + row * sx + at, mask=at < N, other=0.0).to(tl.float32)
        part += v * v
    r = tl.rsqrt(tl.sum(part, axis=0) / N + eps)
    for j in range(0, N, T):
        at = j + lanes
        v = tl.load(x + row * sx + at, mask=at < N, other=0.0).to(tl.float32)
        g = tl.load(w + at, mask=at < N, other=0.0).to(tl.float32)
        tl.store(out + row * so + at, (v * r * g).to(x.dtype.element_ty), mask=at < N)
"""
)
"""The same in two passes over chunks of the row."""

NORM_PERSISTENT_POINTER = (
    POINTER
    + """
@triton.jit
def norm(x, w, out, M, N, sx, so, eps, TM: tl.constexpr, TN: tl.constexpr):
    cols = tl.arange(0, TN)
    g = tl.load(w + cols, mask=cols < N, other=0.0).to(tl.float32)
    for i in range(tl.program_id(0), tl.cdiv(M, TM), tl.num_programs(0)):
        rows = i * TM + tl.arange(0, TM)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        v = tl.load(x + rows[:, None] * sx + cols[None, :], mask=inside, other=0.0).to(tl.float32)
        r = tl.rsqrt(tl.sum(v * v, axis=1) / N + eps)
        y = v * r[:, None] * g[None, :]
        tl.store(out + rows[:, None] * so + cols[None, :], y.to(x.dtype.element_ty), mask=inside)
"""
)
"""Blocks that walk row tiles and keep the weight."""

NORM_BACKWARD_POINTER = (
    POINTER
    + """
@triton.jit
def back(gx, gy, x, w, stat, parts, M, N, sx, sp, TM: tl.constexpr, TN: tl.constexpr):
    own = tl.program_id(0)
    cols = tl.arange(0, TN)
    g = tl.load(w + cols, mask=cols < N, other=0.0).to(tl.float32)
    acc = tl.zeros([TN], dtype=tl.float32)
    for i in range(own, tl.cdiv(M, TM), tl.num_programs(0)):
        rows = i * TM + tl.arange(0, TM)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        to = rows[:, None] * sx + cols[None, :]
        v = tl.load(x + to, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(gy + to, mask=inside, other=0.0).to(tl.float32)
        r = tl.load(stat + rows, mask=rows < M, other=0.0)
        hat = v * r[:, None]
        wdy = dy * g[None, :]
        c = tl.sum(hat * wdy, axis=1) / N
        tl.store(gx + to, ((wdy - hat * c[:, None]) * r[:, None]).to(gx.dtype.element_ty), mask=inside)
        acc += tl.sum(dy * hat, axis=0)
    tl.store(parts + own * sp + cols, acc, mask=cols < N)
"""
)
"""Gradient of a normalisation: statistics are read, the weight's part is summed over the rows of a
block."""

NORM_BACKWARD_LOCKED = (
    POINTER
    + """
@triton.jit
def back(gx, gy, x, w, means, stat, parts, locks, N, sx, G: tl.constexpr, TN: tl.constexpr):
    own = tl.program_id(0)
    cols = tl.arange(0, TN)
    v = tl.load(x + own * sx + cols, mask=cols < N, other=0.0).to(tl.float32)
    dy = tl.load(gy + own * sx + cols, mask=cols < N, other=0.0).to(tl.float32)
    g = tl.load(w + cols, mask=cols < N, other=0.0).to(tl.float32)
    r = tl.load(stat + own)
    hat = (v - tl.load(means + own)) * r
    wdy = dy * g
    c = tl.sum(hat * wdy, axis=0) / N
    d = tl.sum(wdy, axis=0) / N
    tl.store(gx + own * sx + cols, (wdy - (hat * c + d)) * r, mask=cols < N)
    slot = own % G
    part = dy * hat
    to = parts + slot * N + cols
    while tl.atomic_cas(locks + slot, 0, 1) == 1:
        pass
    part += tl.load(to, mask=cols < N)
    tl.store(to, part, mask=cols < N)
    tl.atomic_xchg(locks + slot, 0)
"""
)
"""The same of one row with a mean; blocks take turns at a buffer under a lock."""

SOFTMAX_TWICE_POINTER = (
    POINTER
    + """
@triton.jit
def soft(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, T)
    top = float("-inf")
    tot = 0.0
    for i in range(0, n, T):
        v = tl.load(x + row * n + i + lanes, mask=i + lanes < n, other=float("-inf"))
        new = tl.maximum(top, tl.max(v, axis=0))
        tot = tot * tl.exp(top - new) + tl.sum(tl.exp(v - new), axis=0)
        top = new
    for i in range(0, n, T):
        v = tl.load(x + row * n + i + lanes, mask=i + lanes < n, other=float("-inf"))
        tl.store(out + row * n + i + lanes, tl.exp(v - top) / tot, mask=i + lanes < n)
"""
)
"""Softmax in two passes: the statistics run along in the first, the second divides."""

DELTA = (
    POINTER
    + """
@triton.jit
def delta(o, do, out, n, TM: tl.constexpr, W: tl.constexpr):
    rows = tl.program_id(0) * TM + tl.arange(0, TM)
    at = tl.program_id(1) * W * n + rows[:, None] * W + tl.arange(0, W)[None, :]
    x = tl.load(o + at)
    y = tl.load(do + at).to(tl.float32)
    tl.store(out + tl.program_id(1) * n + rows, tl.sum(x * y, axis=1))
"""
)
"""Rows of an output times their gradients, summed."""

SOFTMAX_POINTER = (
    POINTER
    + """
@triton.jit
def soft(out, x, ROWS, N, so, sx, T: tl.constexpr):
    lanes = tl.arange(0, T)
    inside = lanes < N
    for row in range(tl.program_id(0), ROWS, tl.num_programs(0)):
        v = tl.load(x + row * sx + lanes, mask=inside, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, axis=0))
        d = tl.sum(e, axis=0)
        y = e / d
        tl.store(out + row * so + lanes, y.to(x.dtype.element_ty), mask=inside)
"""
)
"""Softmax of rows that stay in registers."""

SOFTMAX_CHUNKS_POINTER = (
    POINTER
    + """
@triton.jit
def soft(out, x, N, so, sx, T: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    tot = 0.0
    lanes = tl.arange(0, T)
    for j in range(0, N, T):
        v = tl.load(x + row * sx + j + lanes, mask=j + lanes < N, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, axis=0))
    for j in range(0, N, T):
        v = tl.load(x + row * sx + j + lanes, mask=j + lanes < N, other=-float("inf")).to(tl.float32)
        tot = tot + tl.sum(tl.exp(v - top), axis=0)
    inv = 1.0 / tot
    for j in range(0, N, T):
        v = tl.load(x + row * sx + j + lanes, mask=j + lanes < N, other=-float("inf")).to(tl.float32)
        tl.store(out + row * so + j + lanes, (tl.exp(v - top) * inv).to(x.dtype.element_ty), mask=j + lanes < N)
"""
)
"""Softmax in three passes over chunks."""

TURN_POINTER = (
    POINTER
    + """
@triton.jit
def turn(x, out, M, N, sx, so, TM: tl.constexpr, TN: tl.constexpr):
    m = tl.program_id(0) * TM + tl.arange(0, TM)
    n = tl.program_id(1) * TN + tl.arange(0, TN)
    v = tl.load(x + m[:, None] * sx + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N), other=0.0)
    tl.store(out + n[:, None] * so + m[None, :], tl.trans(v), mask=(n[:, None] < N) & (m[None, :] < M))
"""
)
"""A transpose."""

COPY_POINTER = (
    POINTER
    + """
@triton.jit
def copy(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)
"""
)
"""A copy: nearly no decision."""

LAYER_NORM = (
    TILE
    + """
@ct.kernel
def norm(x, w, b, out, mean_out, rstd_out, N: Int, eps: ct.Constant[float], T: Int):
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    inside = at < N
    v = ct.astype(ct.gather(x, (row, at), padding_value=0.0), ct.float32)
    mean = ct.sum(v, axis=0, keepdims=False) / N
    c = v - mean
    c0 = ct.where(inside, c, 0.0)
    var = ct.sum(c0 * c0, axis=0, keepdims=False) / N
    r = ct.rsqrt(var + eps)
    ct.scatter(mean_out, row, mean)
    ct.scatter(rstd_out, row, r)
    g = ct.astype(ct.gather(w, at), ct.float32)
    h = ct.astype(ct.gather(b, at), ct.float32)
    ct.scatter(out, (row, at), ct.astype(c * r * g + h, x.dtype))
"""
)
"""Layer normalisation of one row."""

ADD = (
    TILE
    + """
@ct.kernel
def plus(x, y, out, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(T,), padding_mode=ct.PaddingMode.ZERO)
    w = ct.load(y, index=(i,), shape=(T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(i,), tile=v + w)
"""
)
"""An elementwise sum."""

CONVOLUTION_TILE = (
    TILE
    + """
@ct.kernel
def conv(x, w, out, P: Int, Q: Int, C: Int, H: Int, V: Int, KO: Int, R: Int, S: Int, STEP: Int, PAD: Int, DIL: Int,
         CG: Int, TM: Int, TK: Int, TC: Int):
    m = ct.bid(0) * TM + ct.arange(TM, dtype=ct.int32)
    ko = ct.bid(1) * TK + ct.arange(TK, dtype=ct.int32)
    g = ct.bid(2)
    q = m % Q
    p = (m // Q) % P
    n = m // Q // P
    acc = ct.full((TM, TK), 0.0, dtype=ct.float32)
    blocks = ct.cdiv(CG, TC)
    for t in range(R * S * blocks):
        c = (t % blocks) * TC + ct.arange(TC, dtype=ct.int32)
        rs = t // blocks
        r = rs // S
        s = rs % S
        h = r * DIL - PAD + STEP * p
        v = s * DIL - PAD + STEP * q
        a = ct.gather(x, (n[:, None], (g * CG + c)[None, :], h[:, None], v[:, None]), padding_value=0.0)
        b = ct.gather(w, (ko[None, :], c[:, None], r, s), padding_value=0.0)
        acc = ct.mma(a, b, acc)
    ct.scatter(out, (n[:, None], ko[None, :], p[:, None], q[:, None]), ct.astype(acc, out.dtype))
"""
)
"""A convolution as an implicit matrix product, gathered by position."""
RECURRENT = (
    POINTER
    + """
@triton.jit
def steps(k, v, q, out, n, TK: tl.constexpr, TV: tl.constexpr):
    rows = tl.arange(0, TV)
    cols = tl.arange(0, TK)
    state = tl.zeros([TV, TK], dtype=tl.float32)
    for t in range(n):
        a = tl.load(k + t * TK + cols)
        b = tl.load(v + t * TV + rows)
        state += a[None, :] * b[:, None]
        c = tl.load(q + t * TK + cols)
        tl.store(out + t * TV + rows, tl.sum(state * c[None, :], axis=1))
"""
)
RECURRENT_READ_ONCE = vary(
    RECURRENT,
    ("        tl.store(out", "    tl.store(out"),
    ("        c = tl.load(q + t * TK", "    c = tl.load(q"),
    ("out + t * TV", "out"),
)
SCALED_ROWS_POINTER = (
    POINTER
    + """
@triton.jit
def scan(x, out, n, PER: tl.constexpr, W: tl.constexpr):
    first = tl.program_id(0) * PER
    cols = tl.arange(0, W)
    for i in range(PER):
        at = first + i
        v = tl.load(x + at * W + cols, mask=at < n, other=0.0)
        tl.store(out + at * W + cols, v * 2.0, mask=at < n)
"""
)
"""A block scales its share of rows, one after the other, each checked."""

STEPS = (
    POINTER
    + """
@triton.jit
def steps(q, k, v, out, n, W: tl.constexpr):
    lanes = tl.arange(0, W)
    state = tl.zeros([W, W], dtype=tl.float32)
    for i in range(n):
        x = tl.load(q + i * W + lanes)
        y = tl.load(k + i * W + lanes)
        z = tl.load(v + i * W + lanes)
        state = state * 0.5 + y[:, None] * z[None, :]
        tl.store(out + i * W + lanes, tl.sum(state * x[:, None], axis=0))
"""
)
"""A recurrence: one row of each array a step, a state of two axes handed on."""
LEAST = (
    POINTER
    + """
@triton.jit
def least(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    top = float("inf")
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=float("inf"))
        low = tl.min(v, axis=0)
        top = tl.where(low < top, low, top)
    tl.store(out + row, top)
"""
)

RECURRENCE = (
    POINTER
    + """
@triton.jit
def recur(q, k, v, rate, out, n, W: tl.constexpr):
    row = tl.program_id(0) * n
    at = tl.arange(0, W)
    state = tl.zeros((W, W), dtype=tl.float32)
    for t in range(n):
        a = tl.load(q + (row + t) * W + at)
        b = tl.load(k + (row + t) * W + at)
        a = a * tl.rsqrt(tl.sum(a * a, axis=0) + 1e-6)
        b = b * tl.rsqrt(tl.sum(b * b, axis=0) + 1e-6)
        c = tl.load(v + (row + t) * W + at)
        c = (c - tl.sum(state * b[:, None], axis=0)) * tl.load(rate + row + t)
        state += b[:, None] * c[None, :]
        tl.store(out + (row + t) * W + at, tl.sum(state * a[:, None], axis=0))
"""
)
"""A state that steps change: unit vectors read and write it."""

SEQUENCES = (
    POINTER
    + """
@triton.jit
def scan(x, rate, state, out, N, T: tl.constexpr, W: tl.constexpr):
    own = tl.program_id(0)
    at = tl.arange(0, W)
    h = tl.load(state + own * W + at)
    for t in range(own * T, own * T + T):
        h = h * tl.exp(tl.load(rate + t)) + tl.load(x + t * W + at)
        tl.store(out + t * W + at, h)
    tl.store(state + own * W + at, h)
"""
)
"""A recurrence over the steps of the sequence that the block id places."""

SCANNED_POINTER = (
    POINTER
    + """
@triton.jit
def running(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, T)
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis=0))
"""
)
