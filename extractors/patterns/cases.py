# ruff: noqa: E501
"""Small kernels that the cases of patterns are cut from. Written for this purpose; none is
somebody else's."""

from __future__ import annotations

TILE = "import math\nimport cuda.tile as ct\nInt = ct.Constant[int]\nBool = ct.Constant[bool]\n"
POINTER = "import triton\nimport triton.language as tl\n"


def vary(text: str, *changes: tuple[str, str]) -> str:
    """The text with pieces replaced; ValueError when a piece is not there."""
    for old, new in changes:
        if old not in text:
            raise ValueError(f"the case has no {old!r} to replace")
        text = text.replace(old, new)
    return text


ATTENTION = (
    TILE
    + """
RATE = 1.4426950408889634

@ct.kernel
def attend(a, b, c, out, rate: float, shift: int, W: Int, G: Int, TM: Int, TN: Int, R: Int, TRI: Bool, WHOLE: Bool):
    x = ct.bid(0)
    y = ct.bid(1)
    bat = y // G
    head = y % G
    kv = head // R
    rate = rate * RATE
    rows = x * TM + ct.arange(TM, dtype=ct.int32)
    rows += shift
    rows = rows[:, None]
    cols0 = ct.arange(TN, dtype=ct.int32)[None, :]
    top = ct.full((TM, 1), -math.inf, dtype=ct.float32)
    tot = ct.full((TM, 1), 0.0, dtype=ct.float32)
    acc = ct.full((TM, W), 0.0, dtype=ct.float32)
    fixed = ct.load(a, index=(bat, head, x, 0), shape=(1, 1, TM, W), padding_mode=ct.PaddingMode.ZERO).reshape((TM, W))
    size = b.shape[2]
    if TRI:
        edge = min((shift + x * TM) // TN, size // TN)
        last = ct.cdiv(min(shift + (x + 1) * TM, size), TN)
    else:
        edge = size // TN
        last = ct.cdiv(size, TN)
    for j in range(0, last):
        k = ct.load(b, index=(bat, kv, 0, j), shape=(1, 1, W, TN), order=(0, 1, 3, 2), latency=2).reshape((W, TN))
        s = ct.full((TM, TN), 0.0, dtype=ct.float32)
        s = ct.mma(fixed, k, s)
        if (TRI or not WHOLE) and j >= edge:
            cols = j * TN + cols0
            keep = ct.full((TM, TN), True, dtype=ct.bool_)
            if not WHOLE:
                keep = keep & (cols < size)
            if TRI:
                keep = keep & (rows >= cols)
            s += ct.where(keep, 0.0, -math.inf)
        new = max(top, ct.max(s, axis=-1, keepdims=True) * rate)
        s = s * rate - new
        p = ct.exp2(s, flush_to_zero=True)
        part = ct.sum(p, axis=-1, keepdims=True)
        fade = ct.exp2(top - new, flush_to_zero=True)
        tot = tot * fade + part
        acc = acc * fade
        v = ct.load(c, index=(bat, kv, j, 0), shape=(1, 1, TN, W), latency=4).reshape((TN, W))
        acc = ct.mma(p.astype(a.dtype), v, acc)
        top = new
    acc = ct.truediv(acc, tot, flush_to_zero=True, rounding_mode=ct.RoundingMode.APPROX)
    ct.store(out, index=(bat, head, x, 0), tile=acc.reshape((1, 1, TM, W)).astype(out.dtype))
"""
)
"""Online softmax over streamed keys and values, causal or not, with grouped heads."""

ATTENTION_EVERY = vary(
    ATTENTION,
    (
        "        if (TRI or not WHOLE) and j >= edge:\n            cols",
        "        if TRI or not WHOLE:\n            cols",
    ),
)
"""The same with the mask in every iteration."""

ATTENTION_LSE = (
    vary(
        ATTENTION,
        ("out, rate: float", "out, stat, rate: float"),
        ("R: Int, TRI", "R: Int, LEN: Int, TRI"),
    )
    + """    info = (top + ct.log2(tot)).reshape((TM,))
    at = bat * (G * LEN) + head * LEN + x * TM + ct.arange(TM, dtype=ct.int32)
    ct.scatter(stat, at, info)
"""
)
"""The same, with the statistic saved for a backward pass."""

BACKWARD_KEYS = (
    TILE
    + """
RATE = 1.4426950408889634

@ct.kernel
def back(a, b, c, d, gb, gc, stat, dots, rate: float, W: Int, G: Int, LEN: Int, TM: Int, TN: Int, R: Int, TRI: Bool):
    x = ct.bid(0)
    y = ct.bid(1)
    bat = y // G
    kv = y % G
    size = a.shape[2]
    rate2 = rate * RATE
    gk = ct.full((TN, W), 0.0, dtype=ct.float32)
    gv = ct.full((TN, W), 0.0, dtype=ct.float32)
    k = ct.load(b, index=(bat, kv, x, 0), shape=(1, 1, TN, W), padding_mode=ct.PaddingMode.ZERO).reshape((TN, W))
    v = ct.load(c, index=(bat, kv, x, 0), shape=(1, 1, TN, W), padding_mode=ct.PaddingMode.ZERO).reshape((TN, W))
    cols = (x * TN + ct.arange(TN, dtype=ct.int32))[:, None]
    if TRI:
        first = x * TN // TM
    else:
        first = 0
    for h in range(R):
        head = kv * R + h
        base = bat * (R * G * LEN) + head * LEN
        for m in range(first, ct.cdiv(size, TM)):
            rows = (m * TM + ct.arange(TM, dtype=ct.int32))[None, :]
            q = ct.load(a, index=(bat, head, m, 0), shape=(1, 1, TM, W), padding_mode=ct.PaddingMode.ZERO, latency=2)
            q = q.reshape((TM, W))
            o = ct.load(d, index=(bat, head, m, 0), shape=(1, 1, TM, W), padding_mode=ct.PaddingMode.ZERO, latency=3)
            o = o.reshape((TM, W))
            at = base + m * TM + ct.arange(TM, dtype=ct.int32)
            lse = ct.gather(stat, at)
            dot = ct.gather(dots, at)
            s = ct.mma(k, q.permute((1, 0)), ct.full((TN, TM), 0.0, dtype=ct.float32))
            p = ct.exp2(s * rate2 - lse[None, :], flush_to_zero=True)
            if TRI:
                p = ct.where(cols <= rows, p, 0.0)
            gv = ct.mma(p.astype(a.dtype), o, gv)
            dp = ct.mma(v, o.permute((1, 0)), ct.full((TN, TM), 0.0, dtype=ct.float32))
            ds = p * (dp - dot[None, :])
            gk = ct.mma(ds.astype(a.dtype), q, gk)
    gk = gk * rate
    ct.store(gb, index=(bat, kv, x, 0), tile=gk.reshape((1, 1, TN, W)).astype(gb.dtype))
    ct.store(gc, index=(bat, kv, x, 0), tile=gv.reshape((1, 1, TN, W)).astype(gc.dtype))
"""
)
"""Gradients of keys and values: keys stay, queries of the whole head group stream by."""

ATTENTION_POINTER = (
    POINTER
    + """
@triton.jit
def attend(a, b, c, out, rate, sh, sm, size, TM: tl.constexpr, TN: tl.constexpr, W: tl.constexpr, TRI: tl.constexpr):
    x = tl.program_id(0)
    y = tl.program_id(1)
    rows = x * TM + tl.arange(0, TM)
    cols0 = tl.arange(0, TN)
    lane = tl.arange(0, W)
    q = tl.load(a + y * sh + rows[:, None] * sm + lane[None, :], mask=rows[:, None] < size, other=0.0)
    top = tl.full([TM], float("-inf"), tl.float32)
    tot = tl.zeros([TM], tl.float32)
    acc = tl.zeros([TM, W], tl.float32)
    last = tl.minimum((x + 1) * TM, size) if TRI else size
    for n in range(0, last, TN):
        cols = n + cols0
        k = tl.load(b + y * sh + cols[:, None] * sm + lane[None, :], mask=cols[:, None] < size, other=0.0)
        s = tl.dot(q, tl.trans(k)) * rate
        keep = cols[None, :] < size
        if TRI:
            keep = keep & (rows[:, None] >= cols[None, :])
        s = tl.where(keep, s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        fade = tl.exp(top - new)
        tot = tot * fade + tl.sum(p, 1)
        acc = acc * fade[:, None]
        v = tl.load(c + y * sh + cols[:, None] * sm + lane[None, :], mask=cols[:, None] < size, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new
    acc = acc / tot[:, None]
    tl.store(out + y * sh + rows[:, None] * sm + lane[None, :], acc.to(out.dtype.element_ty), mask=rows[:, None] < size)
"""
)
"""The same operation with pointers, a natural exponential and the scale before the maximum."""

PRODUCT = (
    TILE
    + """
@ct.kernel
def product(a, b, out, TM: Int, TN: Int, TK: Int):
    m = ct.bid(0)
    n = ct.bid(1)
    acc = ct.full((TM, TN), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(TM, TK))):
        x = ct.load(a, index=(m, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, n), shape=(TK, TN), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(out, index=(m, n), tile=ct.astype(acc, out.dtype))
"""
)
"""A matrix product, one output tile per block."""

PRODUCT_PERSISTENT = (
    TILE
    + """
@ct.kernel
def product(a, b, out, M: int, N: int, K: int, TM: Int, TN: Int, TK: Int, GROUP: Int):
    rows = ct.cdiv(M, TM)
    cols = ct.cdiv(N, TN)
    for t in range(ct.bid(0), rows * cols, ct.num_blocks(0)):
        wide = GROUP * cols
        g = t // wide
        first = g * GROUP
        high = min(rows - first, GROUP)
        m = first + (t % high)
        n = (t % wide) // high
        acc = ct.full((TM, TN), 0.0, dtype=ct.float32)
        for k in range(ct.cdiv(K, TK)):
            x = ct.load(a, index=(m, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, index=(k, n), shape=(TK, TN), padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(x, y, acc)
        ct.store(out, index=(m, n), tile=ct.astype(acc, out.dtype))
"""
)
"""A matrix product whose blocks walk the output tiles in groups of rows."""

PRODUCT_POINTER = (
    POINTER
    + """
@triton.jit
def product(a, b, out, M, N, K, sa, sb, so, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    m = tl.program_id(0) * TM + tl.arange(0, TM)
    n = tl.program_id(1) * TN + tl.arange(0, TN)
    k = tl.arange(0, TK)
    pa = a + m[:, None] * sa + k[None, :]
    pb = b + k[:, None] * sb + n[None, :]
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for t in range(0, tl.cdiv(K, TK)):
        x = tl.load(pa, mask=k[None, :] < K - t * TK, other=0.0)
        y = tl.load(pb, mask=k[:, None] < K - t * TK, other=0.0)
        acc += tl.dot(x, y)
        pa += TK
        pb += TK * sb
    tl.store(out + m[:, None] * so + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
"""
)
"""A matrix product with moving pointers."""
