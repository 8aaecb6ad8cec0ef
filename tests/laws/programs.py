"""Kernels that the laws of rewrites are tried on. Written for this purpose; none is somebody's."""

from __future__ import annotations

_HEAD = "import math\nimport cuda.tile as ct\nInt = ct.Constant[int]\nBool = ct.Constant[bool]\n"

FLASH = (
    _HEAD
    + """
LOG2_E = 1.4426950408889634


def stream(
    q, k, v, o, rate: float, shift: int, heads: Int, wide: Int, tm: Int, tn: Int, causal: Bool,
    whole: Bool, x: int, y: int
):
    batch = y // heads
    head = y % heads
    rate = rate * LOG2_E
    rows = (x * tm + ct.arange(tm, dtype=ct.int32) + shift)[:, None]
    lanes = ct.arange(tn, dtype=ct.int32)[None, :]
    high = ct.full((tm, 1), -math.inf, dtype=ct.float32)
    mass = ct.full((tm, 1), 0.0, dtype=ct.float32)
    acc = ct.full((tm, wide), 0.0, dtype=ct.float32)
    a = ct.load(q, index=(batch, head, x, 0), shape=(1, 1, tm, wide)).reshape((tm, wide))
    size = k.shape[2]
    if causal:
        begin = (shift + x * tm) // tn
        begin = min(begin, size // tn)
        end = ct.cdiv(min(shift + (x + 1) * tm, size), tn)
    else:
        end = ct.cdiv(size, tn)
        begin = size // tn
    for j in range(0, end):
        where = (batch, head, 0, j)
        b = ct.load(k, index=where, shape=(1, 1, wide, tn), order=(0, 1, 3, 2), latency=2)
        b = b.reshape((wide, tn))
        s = ct.mma(a, b, ct.full((tm, tn), 0.0, dtype=ct.float32))
        if (causal or not whole) and j >= begin:
            cols = j * tn + lanes
            keep = ct.full((tm, tn), True, dtype=ct.bool_)
            if not whole:
                keep = keep & (cols < size)
            if causal:
                keep = keep & (rows >= cols)
            s = s + ct.where(keep, 0.0, -math.inf)
        top = max(high, ct.max(s, axis=-1, keepdims=True) * rate)
        p = ct.exp2(s * rate - top, flush_to_zero=True)
        fade = ct.exp2(high - top, flush_to_zero=True)
        mass = mass * fade + ct.sum(p, axis=-1, keepdims=True)
        c = ct.load(v, index=(batch, head, j, 0), shape=(1, 1, tn, wide), latency=4)
        c = c.reshape((tn, wide))
        acc = ct.mma(p.astype(q.dtype), c, acc * fade)
        high = top
    acc = ct.truediv(acc, mass, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
    ct.store(o, index=(batch, head, x, 0), tile=acc.reshape((1, 1, tm, wide)).astype(o.dtype))


@ct.kernel
def flash(
    q, k, v, o, rate: float, shift: int, heads: Int, wide: Int, tm: Int, tn: Int, causal: Bool,
    whole: Bool
):
    stream(q, k, v, o, rate, shift, heads, wide, tm, tn, causal, whole, ct.bid(0), ct.bid(1))
"""
)
"""Attention in a helper: base two, scale after the maximum, an added mask on the last tiles, keys
seen turned."""

PLAIN = (
    _HEAD
    + """
@ct.kernel
def plain(q, k, v, o, stat, rate: float, heads: Int, wide: Int, length: Int, tm: Int, tn: Int):
    x = ct.bid(0)
    y = ct.bid(1)
    batch = y // heads
    head = y % heads
    rows = (x * tm + ct.arange(tm, dtype=ct.int32))[:, None]
    high = ct.full((tm, 1), -math.inf, dtype=ct.float32)
    mass = ct.full((tm, 1), 0.0, dtype=ct.float32)
    acc = ct.full((tm, wide), 0.0, dtype=ct.float32)
    a = ct.load(q, index=(batch, head, x, 0), shape=(1, 1, tm, wide)).reshape((tm, wide))
    for j in range(0, ct.cdiv((x + 1) * tm, tn)):
        b = ct.load(k, index=(batch, head, j, 0), shape=(1, 1, tn, wide)).reshape((tn, wide))
        s = ct.mma(a, b.permute((1, 0)), ct.full((tm, tn), 0.0, dtype=ct.float32)) * rate
        cols = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
        s = ct.where(rows >= cols, s, -math.inf)
        top = ct.maximum(high, ct.max(s, axis=-1, keepdims=True))
        p = ct.exp(s - top)
        fade = ct.exp(high - top)
        mass = mass * fade + ct.sum(p, axis=-1, keepdims=True)
        c = ct.load(v, index=(batch, head, j, 0), shape=(1, 1, tn, wide)).reshape((tn, wide))
        acc = ct.mma(p.astype(q.dtype), c, acc * fade)
        high = top
    inverse = ct.truediv(1.0, mass, rounding_mode=ct.RoundingMode.RN)
    acc = acc * inverse
    ct.store(o, index=(batch, head, x, 0), tile=acc.reshape((1, 1, tm, wide)).astype(o.dtype))
    lse = (high + ct.log(mass)).reshape((tm,))
    at = batch * (heads * length) + head * length + x * tm + ct.arange(tm, dtype=ct.int32)
    ct.scatter(stat, at, lse)
"""
)
"""The same operation with the other value on every axis."""

POINTER = """
import triton
import triton.language as tl


@triton.jit
def attend(
    q, k, v, o, rate, sh, sm, size,
    TM: tl.constexpr, TN: tl.constexpr, W: tl.constexpr, TRI: tl.constexpr
):
    x = tl.program_id(0)
    y = tl.program_id(1)
    rows = x * TM + tl.arange(0, TM)
    lanes = tl.arange(0, TN)
    wide = tl.arange(0, W)
    at = q + y * sh + rows[:, None] * sm + wide[None, :]
    a = tl.load(at, mask=rows[:, None] < size, other=0.0)
    high = tl.full([TM], float("-inf"), tl.float32)
    mass = tl.zeros([TM], tl.float32)
    acc = tl.zeros([TM, W], tl.float32)
    end = tl.cdiv(tl.minimum((x + 1) * TM, size), TN) if TRI else tl.cdiv(size, TN)
    for j in range(0, end):
        cols = j * TN + lanes
        at = k + y * sh + cols[:, None] * sm + wide[None, :]
        b = tl.load(at, mask=cols[:, None] < size, other=0.0)
        s = tl.dot(a, tl.trans(b)) * rate
        keep = cols[None, :] < size
        if TRI:
            keep = keep & (rows[:, None] >= cols[None, :])
        s = tl.where(keep, s, float("-inf"))
        top = tl.maximum(high, tl.max(s, 1))
        p = tl.exp(s - top[:, None])
        fade = tl.exp(high - top)
        mass = mass * fade + tl.sum(p, 1)
        at = v + y * sh + cols[:, None] * sm + wide[None, :]
        c = tl.load(at, mask=cols[:, None] < size, other=0.0)
        acc = tl.dot(p.to(c.dtype), c, acc * fade[:, None])
        high = top
    acc = acc / mass[:, None]
    at = o + y * sh + rows[:, None] * sm + wide[None, :]
    tl.store(at, acc.to(o.dtype.element_ty), mask=rows[:, None] < size)
"""
"""The same operation by pointers in Triton."""

SOFTMAX = (
    _HEAD
    + """
@ct.kernel
def soft(out, x, t: Int):
    row = ct.bid(0)
    at = ct.arange(t, dtype=ct.int32)
    v = ct.astype(ct.gather(x, (row, at), padding_value=-math.inf), ct.float32)
    e = ct.exp(v - ct.max(v, 0, keepdims=True))
    y = ct.truediv(e, ct.sum(e, 0, keepdims=True), flush_to_zero=True)
    ct.scatter(out, (row, at), ct.astype(y, x.dtype))
"""
)
"""Softmax of a row: no matrix product, no scale."""

LOSS = (
    _HEAD
    + """
@ct.kernel
def loss(out, x, w, rate: float, tm: Int, tn: Int, wide: Int):
    i = ct.bid(0)
    a = ct.load(x, index=(i, 0), shape=(tm, wide))
    b = ct.load(w, index=(0, 0), shape=(wide, tn))
    s = ct.mma(a, b, ct.full((tm, tn), 0.0, dtype=ct.float32)) * rate
    top = ct.max(s, axis=-1, keepdims=True)
    mass = ct.sum(ct.exp(s - top), axis=-1, keepdims=True)
    mean = ct.sum(s, axis=-1, keepdims=True) / tn
    ct.store(out, index=(i, 0), tile=top + ct.log(mass) - mean)
"""
)
"""A loss: the log-sum-exp is compared with scores, so its base is no free choice."""

NORM = """
import triton
import triton.language as tl


@triton.jit
def norm(x, y, w, size, eps, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    inside = at < size
    v = tl.load(x + row * size + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / size
    centred = tl.where(inside, v - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / size
    scale = tl.load(w + at, mask=inside, other=0.0)
    tl.store(y + row * size + at, (v - mean) * tl.rsqrt(var + eps) * scale, mask=inside)
"""
"""Layer norm of a row: the variance of the differences, no hint on any access."""

MOMENTS = """
import triton
import triton.language as tl


@triton.jit
def moments(x, y, rows, size, T: tl.constexpr, R: tl.constexpr):
    at = tl.program_id(0) * R + tl.arange(0, R)
    lanes = tl.arange(0, T)
    inside = (at < rows)[:, None] & (lanes < size)[None, :]
    place = at[:, None] * size + lanes[None, :]
    v = tl.load(x + place, mask=inside, other=0.0, cache_modifier=".cg").to(tl.float32)
    mean = tl.sum(v, axis=1) / size
    square = tl.where(inside, v * v, 0.0)
    var = tl.sum(square, axis=1) / size - mean * mean
    z = (v - mean[:, None]) * tl.rsqrt(var)[:, None]
    tl.store(y + place, z, mask=inside, cache_modifier=".cg")
"""
"""Several rows by their moments, every access with the same hint."""
