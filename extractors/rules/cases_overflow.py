# ruff: noqa: E501
"""Kernels whose offsets may grow past 32 bits, with their launches. Written for this purpose; none is somebody else's."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE, vary

SCALE = (
    POINTER
    + """
import torch
@triton.jit
def scale(x, out, sx, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * sx + at, mask=at < n, other=0.0)
    tl.store(out + row * sx + at, v * 2.0, mask=at < n)

def run(x):
    m, n = x.shape
    out = torch.empty_like(x)
    scale[(m,)](x, out, x.stride(0), n, triton.next_power_of_2(n))
    return out
"""
)
FLAT = (
    TILE
    + """
@ct.kernel
def flat(x, out, n: int, T: Int):
    at = ct.bid(0) * n + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, at, ct.gather(x, at))
"""
)
LATE = (
    POINTER
    + """
import torch
@triton.jit
def scale(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    far = at.to(tl.int64)
    v = tl.load(x + far, mask=at < n, other=0.0)
    tl.store(out + far, v * 2.0, mask=at < n)

def run(x):
    out = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), 128)
    return out
"""
)
STRIDES = vary(
    LATE,
    ("x, out, n, T", "x, out, n, sx, sh, T"),
    ("tl.program_id(0) * T + tl.arange(0, T)", "tl.arange(0, T)"),
    ("at.to(tl.int64)", "at + (sx * (tl.program_id(1) // 8) + sh * (tl.program_id(1) % 8)).to(tl.int64)"),
    ("x.numel(), 128", "x.numel(), x.stride(0), x.stride(1), 128"),
)  # fmt: skip
ROWS = (
    POINTER
    + """
import torch
@triton.jit
def scale(x, out, sx, m, n, T: tl.constexpr):
    at = tl.arange(0, T)
    for row in range(tl.program_id(0), m, tl.num_programs(0)):
        v = tl.load(x + row * sx + at, mask=at < n, other=0.0)
        tl.store(out + row * sx + at, v * 2.0, mask=at < n)

def run(x):
    m, n = x.shape
    out = torch.empty_like(x)
    scale[(min(m, 528),)](x, out, x.stride(0), m, n, triton.next_power_of_2(n))
    return out
"""
)
TILES = vary(
    ROWS,
    (
        "for row in range(tl.program_id(0), m, tl.num_programs(0)):",
        "for t in range(tl.program_id(0), tl.cdiv(m, 8) * tl.cdiv(n, T), tl.num_programs(0)):\n"
        "        row = (t // tl.cdiv(n, T)) * 8 + tl.arange(0, 8)[:, None]",
    ),
)
PICKED = (
    POINTER
    + """
import torch
@triton.jit
def pick(x, at, out, m, n, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    column = tl.load(at + row, mask=row < m, other=0)
    tl.store(out + row, tl.load(x + row * n + column, mask=row < m, other=0.0), mask=row < m)

def run(x, at):
    m, n = x.shape
    out = torch.empty(m)
    pick[(triton.cdiv(m, 128),)](x, at, out, m, n, 128)
    return out
"""
)
MADE = (
    POINTER
    + """
import torch
@triton.jit
def look_up(ids, table, out, m, N: tl.constexpr, T: tl.constexpr):
    row, at = tl.program_id(0) * T + tl.arange(0, T), tl.arange(0, 128)
    word = tl.load(ids + row, mask=row < m, other=0)
    v = tl.load(table + word[:, None] * N + at[None, :])
    tl.store(out + row[:, None] * N + at[None, :], v, mask=row[:, None] < m)

def run(ids, table):
    m, n = ids.numel(), table.shape[1]
    out = torch.empty(m, n)
    look_up[(triton.cdiv(m, 16),)](ids, table, out, m, n, 16)
    return out
"""
)
