# ruff: noqa: E501
"""The sample kernels of `cases` and `cases_rows` again, with pointers and masks. Written for this
purpose.
"""

from __future__ import annotations

from extractors.patterns.cases import POINTER, vary

FLASH_POINTER = (
    POINTER
    + """
@triton.jit
def attend(a, b, c, out, rate, shift, size, sb, sh, sm, tb, th, tn, ob, oh, om, W: tl.constexpr, G: tl.constexpr,
           TM: tl.constexpr, TN: tl.constexpr, R: tl.constexpr, TRI: tl.constexpr, WHOLE: tl.constexpr):
    x = tl.program_id(0)
    y = tl.program_id(1)
    bat = y // G
    head = y % G
    kv = head // R
    rate = rate * 1.4426950408889634
    at = x * TM + tl.arange(0, TM)
    rows = at + shift
    cols0 = tl.arange(0, TN)
    lane = tl.arange(0, W)
    top = tl.full([TM], float("-inf"), tl.float32)
    tot = tl.zeros([TM], tl.float32)
    acc = tl.zeros([TM, W], tl.float32)
    fixed = tl.load(a + bat * sb + head * sh + at[:, None] * sm + lane[None, :], mask=at[:, None] < size, other=0.0)
    if TRI:
        edge = tl.minimum((shift + x * TM) // TN, size // TN)
        last = tl.cdiv(tl.minimum(shift + (x + 1) * TM, size), TN)
    else:
        edge = size // TN
        last = tl.cdiv(size, TN)
    for j in range(0, last):
        cols = j * TN + cols0
        k = tl.load(b + bat * tb + kv * th + cols[None, :] * tn + lane[:, None], mask=cols[None, :] < size, other=0.0)
        s = tl.dot(fixed, k)
        if (TRI or not WHOLE) and j >= edge:
            keep = cols[None, :] < size
            if TRI:
                keep = keep & (rows[:, None] >= cols[None, :])
            s += tl.where(keep, 0.0, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1) * rate)
        p = tl.exp2(s * rate - new[:, None])
        part = tl.sum(p, 1)
        fade = tl.exp2(top - new)
        tot = tot * fade + part
        acc = acc * fade[:, None]
        v = tl.load(c + bat * tb + kv * th + cols[:, None] * tn + lane[None, :], mask=cols[:, None] < size, other=0.0)
        acc = tl.dot(p.to(a.dtype.element_ty), v, acc)
        top = new
    acc = acc / tot[:, None]
    tl.store(out + bat * ob + head * oh + at[:, None] * om + lane[None, :], acc.to(out.dtype.element_ty), mask=at[:, None] < size)
"""
)
"""Online softmax over streamed keys and values, causal or not, with grouped heads."""

FLASH_STAGED = (
    POINTER
    + """
@triton.jit
def walk(acc, tot, top, fixed, ks, vs, tn, size, x, at, cols0, PART: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr):
    if PART == 1:
        low, high = 0, x * TM
    else:
        low, high = x * TM, (x + 1) * TM
        ks += low * tn
        vs += low * tn
    for j in range(low, high, TN):
        k = tl.load(ks, mask=cols0[None, :] < size - j, other=0.0)
        s = tl.dot(fixed, k)
        if PART == 2:
            s += tl.where(at[:, None] >= j + cols0[None, :], 0, -1.0e6)
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        fade = tl.exp2(top - new)
        tot = tot * fade + tl.sum(p, 1)
        acc = acc * fade[:, None]
        v = tl.load(vs, mask=cols0[:, None] < size - j, other=0.0)
        acc += tl.dot(p.to(tl.float16), v)
        top = new
        ks += TN * tn
        vs += TN * tn
    return acc, tot, top

@triton.jit
def attend(a, b, c, out, size, sb, sm, tb, tn, ob, om, W: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, PARTS: tl.constexpr):
    x = tl.program_id(0)
    bat = tl.program_id(1)
    at = x * TM + tl.arange(0, TM)
    cols0 = tl.arange(0, TN)
    lane = tl.arange(0, W)
    top = tl.full([TM], float("-inf"), tl.float32)
    tot = tl.full([TM], 1.0, tl.float32)
    acc = tl.zeros([TM, W], tl.float32)
    ks = b + bat * tb + cols0[None, :] * tn + lane[:, None]
    vs = c + bat * tb + cols0[:, None] * tn + lane[None, :]
    fixed = tl.load(a + bat * sb + at[:, None] * sm + lane[None, :], mask=at[:, None] < size, other=0.0)
    acc, tot, top = walk(acc, tot, top, fixed, ks, vs, tn, size, x, at, cols0, 4 - PARTS, TM, TN)
    acc, tot, top = walk(acc, tot, top, fixed, ks, vs, tn, size, x, at, cols0, 2, TM, TN)
    acc = acc / tot[:, None]
    tl.store(out + bat * ob + at[:, None] * om + lane[None, :], acc.to(out.dtype.element_ty), mask=at[:, None] < size)
"""
)
"""Online softmax in two calls of one function: keys before the diagonal, and the diagonal."""

FLASH_POINTER_LSE = (
    vary(
        FLASH_POINTER,
        ("out, rate,", "out, stat, rate,"),
        ("R: tl.constexpr,", "R: tl.constexpr, LEN: tl.constexpr,"),
    )
    + """    info = top + tl.log2(tot)
    tl.store(stat + bat * (G * LEN) + head * LEN + at, info, mask=at < size)
"""
)
"""The same, with the statistic saved for a backward pass."""

BACKWARD_KEYS_POINTER = (
    POINTER
    + """
@triton.jit
def back(a, b, c, d, gb, gc, stat, dots, rate, size, sb, sh, sm, tb, th, tn, W: tl.constexpr, G: tl.constexpr,
         LEN: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, R: tl.constexpr, TRI: tl.constexpr):
    x = tl.program_id(0)
    y = tl.program_id(1)
    bat = y // G
    kv = y % G
    rate2 = rate * 1.4426950408889634
    lane = tl.arange(0, W)
    cols = x * TN + tl.arange(0, TN)
    gk = tl.zeros([TN, W], tl.float32)
    gv = tl.zeros([TN, W], tl.float32)
    place = bat * tb + kv * th + cols[:, None] * tn + lane[None, :]
    inside = cols[:, None] < size
    k = tl.load(b + place, mask=inside, other=0.0)
    v = tl.load(c + place, mask=inside, other=0.0)
    if TRI:
        first = x * TN // TM
    else:
        first = 0
    for h in range(R):
        head = kv * R + h
        base = bat * (R * G * LEN) + head * LEN
        for m in range(first, tl.cdiv(size, TM)):
            rows = m * TM + tl.arange(0, TM)
            to = bat * sb + head * sh + rows[:, None] * sm + lane[None, :]
            q = tl.load(a + to, mask=rows[:, None] < size, other=0.0)
            o = tl.load(d + to, mask=rows[:, None] < size, other=0.0)
            lse = tl.load(stat + base + rows)
            dot = tl.load(dots + base + rows)
            s = tl.dot(k, tl.trans(q))
            p = tl.exp2(s * rate2 - lse[None, :])
            if TRI:
                p = tl.where(cols[:, None] <= rows[None, :], p, 0.0)
            gv = tl.dot(p.to(a.dtype.element_ty), o, gv)
            dp = tl.dot(v, tl.trans(o))
            ds = p * (dp - dot[None, :])
            gk = tl.dot(ds.to(a.dtype.element_ty), q, gk)
    gk = gk * rate
    tl.store(gb + place, gk.to(gb.dtype.element_ty), mask=inside)
    tl.store(gc + place, gv.to(gc.dtype.element_ty), mask=inside)
"""
)
"""Gradients of keys and values: keys stay, queries of the whole head group stream by."""

PRODUCT_PERSISTENT_POINTER = (
    POINTER
    + """
@triton.jit
def product(a, b, out, M, N, K, sa, sb, so, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, GROUP: tl.constexpr):
    rows = tl.cdiv(M, TM)
    cols = tl.cdiv(N, TN)
    for t in range(tl.program_id(0), rows * cols, tl.num_programs(0)):
        wide = GROUP * cols
        g = t // wide
        first = g * GROUP
        high = tl.minimum(rows - first, GROUP)
        m = (first + (t % high)) * TM + tl.arange(0, TM)
        n = ((t % wide) // high) * TN + tl.arange(0, TN)
        acc = tl.zeros((TM, TN), dtype=tl.float32)
        for i in range(tl.cdiv(K, TK)):
            k = i * TK + tl.arange(0, TK)
            x = tl.load(a + m[:, None] * sa + k[None, :], mask=k[None, :] < K, other=0.0)
            y = tl.load(b + k[:, None] * sb + n[None, :], mask=k[:, None] < K, other=0.0)
            acc = tl.dot(x, y, acc)
        tl.store(out + m[:, None] * so + n[None, :], acc.to(out.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))
"""
)
"""A matrix product whose blocks walk the output tiles in groups of rows."""

PRODUCT_DESCRIPTOR = (
    POINTER
    + """
@triton.jit
def product(a, b, out, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    m = tl.program_id(0)
    n = tl.program_id(1)
    left = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[TM, TK])
    right = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[TK, TN])
    to = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[TM, TN])
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for k in range(tl.cdiv(K, TK)):
        x = left.load([m * TM, k * TK])
        y = right.load([k * TK, n * TN])
        acc = tl.dot(x, y, acc)
    to.store([m * TM, n * TN], acc.to(out.dtype.element_ty))
"""
)
"""A matrix product with descriptors, one output tile per block."""

DECODE_PART = (
    POINTER
    + """
@triton.jit
def part(a, b, c, lengths, out, side, rate, hop, W: tl.constexpr, T: tl.constexpr):
    who = tl.program_id(0)
    share = tl.program_id(1)
    lanes = tl.arange(0, W)
    count = tl.load(lengths + who)
    chunk = tl.cdiv(count, tl.num_programs(1))
    low = share * chunk
    high = tl.minimum(low + chunk, count)
    row = tl.load(a + who * W + lanes)
    top = float("-inf")
    total = 0.0
    acc = tl.zeros([W], dtype=tl.float32)
    for first in range(low, high, T):
        at = first + tl.arange(0, T)
        here = at < high
        place = at[:, None] * hop + lanes[None, :]
        keys = tl.load(b + place, mask=here[:, None], other=0.0)
        score = tl.sum(row[None, :] * keys, 1) * rate
        score = tl.where(here, score, float("-inf"))
        values = tl.load(c + place, mask=here[:, None], other=0.0)
        peak = tl.maximum(tl.max(score, 0), top)
        fall = tl.exp(top - peak)
        weight = tl.exp(score - peak)
        acc = acc * fall + tl.sum(weight[:, None] * values, 0)
        total = total * fall + tl.sum(weight, 0)
        top = peak
    slot = who * tl.num_programs(1) + share
    tl.store(out + slot * W + lanes, acc / total)
    tl.store(side + slot, top + tl.log(total))
"""
)
"""One query against a part of the keys, by lanes: the parts are merged by another kernel."""
TWO_PRODUCTS = (
    POINTER
    + """
@triton.jit
def carry_on(c, state, pair, x, out, size, width, T: tl.constexpr, W: tl.constexpr, R: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    cols = tl.arange(0, W)
    part = tl.arange(0, R)
    acc = tl.zeros((T, W), dtype=tl.float32)
    for i in range(0, width, R):
        own = tl.load(c + rows[:, None] * width + i + part[None, :])
        acc += tl.dot(own, tl.load(state + (i + part[:, None]) * W + cols[None, :]))
    for j in range(0, size, T):
        at = j + tl.arange(0, T)
        p = tl.load(pair + rows[:, None] * size + at[None, :])
        p = tl.where(rows[:, None] >= at[None, :], p, 0.0)
        acc += tl.dot(p, tl.load(x + at[:, None] * W + cols[None, :]))
    tl.store(out + rows[:, None] * W + cols[None, :], acc)
"""
)
"""What came before a chunk, and then what a triangle of its own elements adds."""
STATE_STEP_POINTER = (
    POINTER
    + """
@triton.jit
def step(q, state, out, rate, TK: tl.constexpr, TV: tl.constexpr):
    rows = tl.arange(0, TV)
    cols = tl.arange(0, TK)
    s = tl.load(state + rows[:, None] * TK + cols[None, :])
    v = tl.load(q + cols).to(tl.float32) * rate
    tl.store(out + rows, tl.sum(s * v[None, :], axis=1))
"""
)
"""A state of one step, multiplied with a scaled vector and summed by lanes."""

STATE_STEPS_POINTER = (
    POINTER
    + """
@triton.jit
def steps(q, d, out, n, rate, TK: tl.constexpr, TV: tl.constexpr):
    rows = tl.arange(0, TV)
    cols = tl.arange(0, TK)
    s = tl.zeros([TV, TK], tl.float32)
    for i in range(n):
        v = tl.load(q + i * TK + cols).to(tl.float32) * rate
        s += v[None, :] * tl.load(d + i * TV + rows)[:, None]
    tl.store(out + rows[:, None] * TK + cols[None, :], s)
"""
)
"""A state that an outer product is added to in every step."""
