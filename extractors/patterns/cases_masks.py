"""Kernels with masks that stand elsewhere than in every round of one loop."""

from __future__ import annotations

from extractors.patterns.cases import POINTER

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
