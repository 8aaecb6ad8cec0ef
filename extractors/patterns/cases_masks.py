"""Kernels whose masks stand elsewhere than in every round of one loop, or in every branch."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_pointer import FLASH_STAGED

SKIPPED = (
    POINTER
    + """
@triton.jit
def scores(q, k, out, n, T: tl.constexpr, W: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    at = tl.arange(0, T)
    cols = tl.arange(0, W)
    own = tl.load(q + rows[:, None] * W + cols[None, :])
    acc = tl.zeros((T, W), dtype=tl.float32)
    for j in range(n):
        if j <= tl.program_id(0):
            x = tl.load(k + (j * T + at)[:, None] * W + cols[None, :])
            s = tl.dot(own, tl.trans(x))
            s = tl.where(rows[:, None] >= j * T + at[None, :], s, float("-inf"))
            acc += tl.dot(tl.exp(s).to(x.dtype), x)
    tl.store(out + rows[:, None] * W + cols[None, :], acc)
"""
)
LISTED = (
    POINTER
    + """
@triton.jit
def scores(q, k, chosen, out, n, T: tl.constexpr, W: tl.constexpr):
    row = tl.program_id(0)
    rows = row * T + tl.arange(0, T)
    at = tl.arange(0, T)
    cols = tl.arange(0, W)
    own = tl.load(q + rows[:, None] * W + cols[None, :])
    acc = tl.zeros((T, W), dtype=tl.float32)
    for j in range(n):
        places = tl.load(chosen + row * n * T + j * T + at)
        x = tl.load(k + places[:, None] * W + cols[None, :])
        s = tl.dot(own, tl.trans(x))
        s = tl.where(places[None, :] <= row, s, float("-inf"))
        acc += tl.dot(tl.exp(s).to(x.dtype), x)
    tl.store(out + rows[:, None] * W + cols[None, :], acc)
"""
)
PEELED = (
    POINTER
    + """
@triton.jit
def decode(q, k, out, n, T: tl.constexpr, W: tl.constexpr, H: tl.constexpr):
    rows = tl.program_id(0) * H + tl.arange(0, H)
    at = tl.arange(0, T)
    cols = tl.arange(0, W)
    own = tl.load(q + rows[:, None] * W + cols[None, :])
    top = tl.full((H,), float("-inf"), dtype=tl.float32)
    acc = tl.zeros((H, W), dtype=tl.float32)
    for i in range(n // T):
        x = tl.load(k + (i * T + at)[:, None] * W + cols[None, :])
        s = tl.dot(own, tl.trans(x))
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp(s - new[:, None])
        acc = tl.dot(p.to(x.dtype), x, acc * tl.exp(top - new)[:, None])
        top = new
    rest = n // T * T + at
    if n % T:
        x = tl.load(k + rest[:, None] * W + cols[None, :], mask=rest[:, None] < n, other=0.0)
        s = tl.where(rest[None, :] < n, tl.dot(own, tl.trans(x)), float("-inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp(s - new[:, None])
        acc = tl.dot(p.to(x.dtype), x, acc * tl.exp(top - new)[:, None])
    tl.store(out + rows[:, None] * W + cols[None, :], acc)
"""
)
PEELED_ROW = (
    POINTER
    + """
@triton.jit
def total(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    acc = tl.zeros((T,), dtype=tl.float32)
    for i in range(n // T):
        acc += tl.load(x + i * T + at)
    last = n // T * T + at
    acc += tl.load(x + last, mask=last < n, other=0.0)
    tl.store(out, tl.sum(acc, axis=0))
"""
)
PEELED_APART = vary(PEELED_ROW, ("    acc += tl.load(x + last", "    acc = tl.load(x + last"))
WALKED_AGAIN = vary(
    PEELED_ROW,
    ("    last = n // T * T + at\n", "    for j in range(n // T + 1):\n"),
    (
        "    acc += tl.load(x + last, mask=last < n, other=0.0)\n",
        "        last = j * T + at\n        acc += tl.load(x + last, mask=last < n, other=0.0)\n",
    ),
)
CHECKED_EITHER_WAY = (
    POINTER
    + """
@triton.jit
def plus(x, out, order, n, T: tl.constexpr, TURN: tl.constexpr):
    if TURN:
        at = tl.program_id(0) * T + tl.arange(0, T)
        inside = at < n
        at = tl.load(order + at, mask=at < n)
    else:
        at = tl.program_id(0) * T + tl.arange(0, T)
        inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside), mask=inside)
"""
)
"""Positions come from a table or not; both are held below the extent."""
CHECKED_BY_PARTS = (
    POINTER
    + """
@triton.jit
def pack(x, out, n, k, T: tl.constexpr, W: tl.constexpr, NARROW: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0)
    if NARROW:
        group = tl.arange(0, W)
        small = tl.sum(tl.reshape(v, (W, T // W)), axis=1)
        tl.store(out + row * k + group, small, mask=group < n // 8)
    else:
        pair = tl.arange(0, T // 2)
        wide = tl.sum(tl.reshape(v, (T // 2, 2)), axis=1)
        tl.store(out + row * k + pair, wide, mask=pair < k)
"""
)
"""One of two ways to pack a row; both hold their positions below an end of their own."""
CHECKED_OR_SINGLE = (
    POINTER
    + """
@triton.jit
def plus(x, shift, out, n, k, T: tl.constexpr, W: tl.constexpr, MANY: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    cols = tl.arange(0, W)
    if W <= 128:
        own = tl.load(x + at[:, None] * k + cols[None, :], mask=cols[None, :] < k, other=0.0)
        v = tl.sum(own, axis=1)
    else:
        v = tl.zeros((T,), dtype=tl.float32)
        for i in range(0, k, W):
            place = x + at[:, None] * k + i + cols[None, :]
            own = tl.load(place, mask=cols[None, :] < k - i, other=0.0)
            v += tl.sum(own, axis=1)
    if MANY:
        v += tl.load(shift + at, mask=at < n, other=0.0)
    else:
        v += tl.load(shift)
    tl.store(out + at, v, mask=at < n)
"""
)
"""One tile or a loop, both checked; a number for every lane or one for all."""

SIDED = vary(
    FLASH_STAGED,
    ("TN: tl.constexpr):\n    if PART", "TN: tl.constexpr, SIDE: tl.constexpr):\n    if PART"),
    (
        "        if PART == 2:\n"
        "            s += tl.where(at[:, None] >= j + cols0[None, :], 0, -1.0e6)\n",
        "        keep = j + cols0[None, :] < size\n"
        "        if SIDE:\n            keep &= at[:, None] >= j + cols0[None, :]\n"
        "        s = tl.where(keep, s, -1.0e6)\n",
    ),
    ("4 - PARTS, TM, TN)", "4 - PARTS, TM, TN, False)"),
    ("2, TM, TN)", "2, TM, TN, True)"),
)
"""The same in two calls: a helper masks every tile, and the diagonal in one of them."""

SOLVED_ROWS = (
    POINTER
    + """
@triton.jit
def solve(a, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    s = tl.load(a + at[:, None] * T + at[None, :])
    for i in range(1, n):
        row = tl.load(a + i * T + at)
        row += tl.sum(row[:, None] * s, axis=0)
        s = tl.where((at == i)[:, None], row[None, :], s)
    tl.store(out + at[:, None] * T + at[None, :], s)
"""
)
"""A tile whose rows are made of the ones before, one after the other."""

BY_FLAG = (
    POINTER
    + """
@triton.jit
def weigh(q, k, v, out, D: tl.constexpr, TM: tl.constexpr, W: tl.constexpr, NEAR: tl.constexpr):
    x = tl.program_id(0)
    m = x * TM + tl.arange(0, TM)
    d = tl.arange(0, D)
    a = tl.load(q + m[:, None] * D + d[None, :])
    acc = tl.zeros((TM, D), tl.float32)
    for j in range(0, x * TM, TM):
        n = j + tl.arange(0, TM)
        s = tl.dot(a, tl.load(k + d[:, None] + n[None, :] * D))
        if NEAR:
            s = tl.where(m[:, None] - n[None, :] < W, s, float("-inf"))
        acc += tl.dot(tl.exp(s).to(a.dtype), tl.load(v + n[:, None] * D + d[None, :]))
    for j in range(x * TM, (x + 1) * TM, TM):
        n = j + tl.arange(0, TM)
        s = tl.dot(a, tl.load(k + d[:, None] + n[None, :] * D))
        s = tl.where(m[:, None] >= n[None, :], s, float("-inf"))
        acc += tl.dot(tl.exp(s).to(a.dtype), tl.load(v + n[:, None] * D + d[None, :]))
    tl.store(out + m[:, None] * D + d[None, :], acc.to(out.dtype.element_ty))
"""
)
"""A loop whose window a flag leaves out, and one along the diagonal."""
