# ruff: noqa: E501
"""Small kernels over rows, tiles and images that the cases of patterns are cut from. Written for
this purpose.
"""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE

ROW_NORM = (
    TILE
    + """
@ct.kernel
def norm(x, w, out, stat, N: Int, eps: ct.Constant[float], T: Int):
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    inside = T != N
    v = ct.astype(ct.gather(x, (row, at), check_bounds=inside, latency=1), ct.float32)
    r = ct.rsqrt(ct.sum(v * v, axis=0, keepdims=False) / N + eps)
    ct.scatter(stat, row, r)
    g = ct.astype(ct.gather(w, at, check_bounds=inside, latency=1), ct.float32)
    ct.scatter(out, (row, at), ct.astype(v * r * g, x.dtype), latency=1)
"""
)
"""Root-mean-square normalisation of a row that stays in registers."""

ROW_NORM_CHUNKS = (
    TILE
    + """
@ct.kernel
def norm(x, w, out, N: Int, eps: ct.Constant[float], T: Int):
    row = ct.bid(0)
    part = ct.full((T,), 0.0, dtype=ct.float32)
    lanes = ct.arange(T, dtype=ct.int32)
    for j in range(ct.cdiv(N, T)):
        v = ct.astype(ct.gather(x, (row, j * T + lanes)), ct.float32)
        part += v * v
    r = ct.rsqrt(ct.sum(part, axis=0, keepdims=False) / N + eps)
    for j in range(ct.cdiv(N, T)):
        v = ct.astype(ct.gather(x, (row, j * T + lanes)), ct.float32)
        g = ct.astype(ct.gather(w, j * T + lanes), ct.float32)
        ct.scatter(out, (row, j * T + lanes), ct.astype(v * r * g, x.dtype))
"""
)
"""The same in two passes over chunks of the row."""

NORM_PERSISTENT = (
    TILE
    + """
@ct.kernel
def norm(x, w, out, TM: Int, TN: Int, eps: ct.Constant[float]):
    M = x.shape[0]
    N = x.shape[1]
    g = ct.astype(ct.load(w, index=(0,), shape=(TN,), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    for i in range(ct.bid(0), ct.cdiv(M, TM), ct.num_blocks(0)):
        v = ct.load(x, index=(i, 0), shape=(TM, TN), padding_mode=ct.PaddingMode.ZERO, latency=10)
        v = ct.astype(v, ct.float32)
        r = ct.rsqrt(ct.sum(v * v, axis=1, keepdims=True) / N + eps)
        y = v * r * ct.reshape(g, (1, TN))
        ct.store(out, index=(i, 0), tile=ct.astype(y, x.dtype), allow_tma=False)
"""
)
"""Blocks that walk row tiles and keep the weight."""

NORM_BACKWARD = (
    TILE
    + """
@ct.kernel
def back(gx, gy, x, w, stat, parts, TM: Int, TN: Int):
    own = ct.bid(0)
    M, N = x.shape[0], x.shape[1]
    g = ct.reshape(ct.astype(ct.load(w, index=(0,), shape=(TN,)), ct.float32), (1, TN))
    rcp = ct.full((TM, 1), 1.0 / N, dtype=ct.float32)
    acc = ct.full((1, TN), 0.0, dtype=ct.float32)
    for i in range(own, ct.cdiv(M, TM), ct.num_blocks(0)):
        v = ct.astype(ct.load(x, index=(i, 0), shape=(TM, TN)), ct.float32)
        dy = ct.astype(ct.load(gy, index=(i, 0), shape=(TM, TN)), ct.float32)
        r = ct.reshape(ct.load(stat, index=(i,), shape=(TM,)), (TM, 1))
        hat = v * r
        wdy = dy * g
        c = ct.sum(hat * wdy, axis=1, keepdims=True) * rcp
        ct.store(gx, index=(i, 0), tile=ct.astype((wdy - hat * c) * r, gx.dtype))
        acc = acc + ct.sum(dy * hat, axis=0, keepdims=True)
    ct.store(parts, index=(own, 0), tile=acc)
"""
)
"""Gradient of a normalisation: statistics are read, the weight's part is summed over the rows of a
block."""

LAYER_NORM_POINTER = (
    POINTER
    + """
@triton.jit
def norm(y, sy, x, sx, w, b, mean_out, rstd_out, n, eps, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    inside = at < n
    g = tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
    h = tl.load(b + at, mask=inside, other=0.0).to(tl.float32)
    v = tl.load(x + row * sx + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / n
    c = v - mean
    c0 = tl.where(inside, c, 0.0)
    var = tl.sum(c0 * c0, axis=0) / n
    r = tl.rsqrt(var + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, r)
    tl.store(y + row * sy + at, (c * r * g + h).to(tl.float16), mask=inside)
"""
)
"""Layer normalisation of one row by pointers."""

PARTIAL_SUM = (
    POINTER
    + """
@triton.jit
def first(x, parts, n, T: tl.constexpr):
    own = tl.program_id(0)
    at = own * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(parts + own, tl.sum(v, axis=0))
"""
)
"""The sum of a block's own part of a flat array."""

RUNNING_NORM = (
    POINTER
    + """
@triton.jit
def norm(x, y, w, b, means, squares, rstd_out, n, C, eps, T: tl.constexpr, GAIN: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    inside = at < n
    v = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.load(means + row % C)
    r = tl.rsqrt(tl.load(squares + row % C) + eps)
    tl.store(rstd_out + row, r)
    if GAIN:
        v = (v - mean) * r * tl.load(w + row % C) + tl.load(b + row % C)
    else:
        v = (v - mean) * r
    tl.store(y + row * n + at, v, mask=inside)
"""
)
"""Normalisation by statistics that are loaded, one mean and one square per channel."""

SOFTMAX = (
    TILE
    + """
@ct.kernel(occupancy=4)
def soft(out, x, ROWS: Int, T: Int):
    lanes = ct.arange(T, dtype=ct.int32)
    for row in range(ct.bid(0), ROWS, ct.num_blocks(0)):
        v = ct.astype(ct.gather(x, (row, lanes), check_bounds=True, padding_value=-math.inf), ct.float32)
        e = ct.exp(v - ct.max(v, 0, keepdims=True), rounding_mode=ct.RoundingMode.APPROX)
        d = ct.sum(e, 0, keepdims=True)
        y = ct.truediv(e, d, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
        ct.scatter(out, (row, lanes), ct.astype(y, x.dtype), check_bounds=True)
"""
)
"""Softmax of rows that stay in registers."""

SOFTMAX_CHUNKS = (
    TILE
    + """
@ct.kernel
def soft(out, x, COLS: Int, T: Int):
    row = ct.bid(0)
    top = ct.full((1,), -math.inf, dtype=ct.float32)
    tot = ct.full((1,), 0.0, dtype=ct.float32)
    lanes = ct.arange(T, dtype=ct.int32)
    for j in range(ct.cdiv(COLS, T)):
        v = ct.astype(ct.gather(x, (row, j * T + lanes), padding_value=-math.inf), ct.float32)
        top = ct.maximum(top, ct.max(v, 0, keepdims=True))
    for j in range(ct.cdiv(COLS, T)):
        v = ct.astype(ct.gather(x, (row, j * T + lanes), padding_value=-math.inf), ct.float32)
        tot = tot + ct.sum(ct.exp(v - top), 0, keepdims=True)
    inv = ct.truediv(1.0, tot)
    for j in range(ct.cdiv(COLS, T)):
        v = ct.astype(ct.gather(x, (row, j * T + lanes), padding_value=-math.inf), ct.float32)
        ct.scatter(out, (row, j * T + lanes), ct.astype(ct.exp(v - top) * inv, x.dtype))
"""
)
"""Softmax in three passes over chunks."""

TURN = (
    TILE
    + """
@ct.kernel
def turn(x, out, TM: Int, TN: Int):
    m = ct.bid(0)
    n = ct.bid(1)
    v = ct.load(x, index=(m, n), shape=(TM, TN), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(n, m), tile=ct.transpose(v))
"""
)
"""A transpose."""

COPY = (
    TILE
    + """
@ct.kernel
def copy(x, out, T: Int):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)))
"""
)
"""A copy: nearly no decision."""

DELTA_TILE = (
    TILE
    + """
@ct.kernel
def delta(o, do, out, TM: Int, W: Int):
    i = ct.bid(0)
    x = ct.astype(ct.load(o, index=(i, 0), shape=(TM, W)), ct.float32)
    y = ct.astype(ct.load(do, index=(i, 0), shape=(TM, W)), ct.float32)
    ct.store(out, index=(i,), tile=ct.sum(x * y, axis=1))
"""
)
"""Rows of an output times their gradients, summed."""

ADD_POINTER = (
    POINTER
    + """
@triton.jit
def plus(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)
"""
)
"""An elementwise sum by pointers."""

CONVOLUTION = (
    POINTER
    + """
@triton.jit
def conv(x, w, out, batch, H, V, P, Q, KO, xn, xc, xh, xv, wk, wc, wr, ws, yn, yk, yp, yq,
         CG: tl.constexpr, R: tl.constexpr, S: tl.constexpr, STEP: tl.constexpr, PAD: tl.constexpr,
         DIL: tl.constexpr, TM: tl.constexpr, TK: tl.constexpr, TC: tl.constexpr):
    m = tl.program_id(0) * TM + tl.arange(0, TM)
    ko = tl.program_id(1) * TK + tl.arange(0, TK)
    g = tl.program_id(2)
    q = m % Q
    p = (m // Q) % P
    n = m // Q // P
    base = x + (n * xn + g * xc * CG)[:, None]
    acc = tl.zeros((TM, TK), dtype=tl.float32)
    blocks = (CG + TC - 1) // TC
    for t in range(R * S * blocks):
        c = (t % blocks) * TC + tl.arange(0, TC)
        rs = t // blocks
        r = rs // S
        s = rs % S
        h = r * DIL - PAD + STEP * p
        v = s * DIL - PAD + STEP * q
        inside = (n < batch)[:, None] & (c < CG)[None, :] & (0 <= h)[:, None] & (h < H)[:, None]
        inside = inside & (0 <= v)[:, None] & (v < V)[:, None]
        a = tl.load(base + (xc * c)[None, :] + (xh * h)[:, None] + (xv * v)[:, None], mask=inside, other=0.0)
        b = tl.load(w + (wc * c)[:, None] + (wk * ko)[None, :] + wr * r + ws * s, mask=(c < CG)[:, None], other=0.0)
        acc += tl.dot(a, b)
    to = out + (yn * n)[:, None] + (yk * ko)[None, :] + (yp * p)[:, None] + (yq * q)[:, None]
    tl.store(to, acc, mask=(n < batch)[:, None] & (ko < KO)[None, :])
"""
)
"""A convolution as an implicit matrix product, taps outside and channels inside one loop."""

CENTRED_TILES = (
    TILE
    + """
@ct.kernel
def centre(x, out, N: Int, T: Int):
    row = ct.bid(0)
    total = ct.full((1, T), 0.0, dtype=ct.float32)
    for j in range(ct.cdiv(N, T)):
        total = total + ct.load(x, index=(row, j), shape=(1, T))
    mean = ct.sum(total, 1, keepdims=True) / N
    for j in range(ct.cdiv(N, T)):
        v = ct.load(x, index=(row, j), shape=(1, T))
        ct.store(out, index=(row, j), tile=v - mean)
"""
)
"""Rows that are read twice, by the numbers of their tiles."""
