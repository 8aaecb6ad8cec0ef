# ruff: noqa: E501
"""Small modules, kernel and host, that the cases of rules are cut from. Written for this purpose."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, PRODUCT

TIMED_HINTS = ", lambda cfg: {'occupancy': cfg.occupancy}"
SEARCHED = (
    """
import math
from types import SimpleNamespace
import cuda.tile as ct
import torch
from cuda.tile.tune import exhaustive_search
cache = {}
Int = ct.Constant[int]

def space(d):
    cap = torch.cuda.get_device_capability()
    if cap[0] < 9:
        yield SimpleNamespace(T=64, occupancy=1)
        yield SimpleNamespace(T=128, occupancy=2)
    else:
        yield SimpleNamespace(T=256, occupancy=1)

@ct.kernel
def move(x, out, n: int, T: Int):
    i = ct.bid(0)
    ct.store(out, index=(ct.bid(1), i), tile=ct.load(x, index=(ct.bid(1), i), shape=(1, T)))

def run(x):
    x = x.contiguous()
    b, n = x.shape
    out = torch.empty_like(x)
    key = (b, n, x.dtype)
    if key not in cache:
        found = exhaustive_search(
            list(space(n)), None, lambda cfg: (math.ceil(n / cfg.T), b, 1), move,
            lambda cfg: (x, out, n, cfg.T)"""
    + TIMED_HINTS
    + """)
        best = found.best.config
        cache[key] = (best, move.replace_hints(occupancy=best.occupancy))
    best, tuned = cache[key]
    ct.launch(None, (math.ceil(n / best.T), b, 1), tuned, (x, out, n, best.T))
    return out
"""
)
"""A cuTile search whose winner is remembered and launched with the hints it was timed with."""

ROWS_POINTER = (
    POINTER
    + """
import torch
@triton.jit
def rows(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=tl.arange(0, T) < n) * 2.0, mask=tl.arange(0, T) < n)
"""
)
"""A Triton kernel of which every block takes one row; what launches it is left to the case."""

AUTOTUNED = """
import torch
import triton
import triton.language as tl

@triton.autotune(
    configs=[triton.Config({"T": t, "D": d}, num_warps=w) for t in (64, 128) for d in (0, 1) for w in (4, 8)],
    key=["n"],
)
@triton.jit
def move(x, out, n, T: tl.constexpr, D: tl.constexpr):
    at = (tl.program_id(0).to(tl.int64) * T + tl.arange(0, T))
    v = tl.load(x + at + D, mask=at + D < n, other=0.0)
    tl.store(out + at, v, mask=at < n)

def run(x):
    x = x.contiguous()
    n = x.numel()
    out = torch.empty_like(x)
    move[lambda meta: (triton.cdiv(n, meta["T"]),)](x, out, n)
    return out
"""
"""A Triton search over tile size, offset and warps."""

AUTOTUNED_PRODUCT = """
import torch
import triton
import triton.language as tl

@triton.autotune(
    configs=[triton.Config({"TM": m, "TK": 32}, num_warps=w) for m in (64, 128) for w in (4, 8)],
    key=["W", "M", "N", "K"],
)
@triton.jit
def product(a, b, out, M, N, K, sa, sb, so, W: tl.constexpr, TM: tl.constexpr, TK: tl.constexpr):
    m = tl.program_id(0).to(tl.int64) * TM + tl.arange(0, TM)
    n = tl.arange(0, W)
    acc = tl.zeros((TM, W), dtype=tl.float32)
    for t in range(0, tl.cdiv(K, TK)):
        k = t * TK + tl.arange(0, TK)
        x = tl.load(a + m[:, None] * sa + k[None, :], mask=k[None, :] < K, other=0.0)
        y = tl.load(b + k[:, None] * sb + n[None, :], mask=k[:, None] < K, other=0.0)
        acc += tl.dot(x, y)
    tl.store(out + m[:, None] * so + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))

def run(a, b):
    assert a.stride(1) == 1 and b.stride(1) == 1
    M, K = a.shape
    N = b.shape[1]
    W = triton.next_power_of_2(N)
    out = torch.empty(M, N)
    product[lambda meta: (triton.cdiv(M, meta["TM"]),)](
        a, b, out, M, N, K, a.stride(0), b.stride(0), out.stride(0), W)
    return out
"""
"""A Triton search over tiles of a product whose rows of the right side are whole."""

SEARCHED_PRODUCT = (
    PRODUCT
    + """
import torch
from types import SimpleNamespace
from cuda.tile.tune import exhaustive_search

def space():
    if torch.cuda.get_device_capability()[0] < 9:
        yield SimpleNamespace(TM=128, TN=128, TK=32, num_ctas=1)
        yield SimpleNamespace(TM=128, TN=128, TK=32, num_ctas=2)
    else:
        yield SimpleNamespace(TM=256, TN=128, TK=64, num_ctas=2)

def run(a, b):
    out = torch.empty(a.shape[0], b.shape[1])
    found = exhaustive_search(
        list(space()), None, lambda c: (ct.cdiv(a.shape[0], c.TM), ct.cdiv(b.shape[1], c.TN), 1),
        product, lambda c: (a, b, out, c.TM, c.TN, c.TK), lambda c: {"num_ctas": c.num_ctas})
    best = found.best.config
    ct.launch(None, (ct.cdiv(a.shape[0], best.TM), ct.cdiv(b.shape[1], best.TN), 1),
              product.replace_hints(num_ctas=best.num_ctas), (a, b, out, best.TM, best.TN, best.TK))
    return out
"""
)
"""A product whose tiles are searched, other ones before compute capability 9."""
LAUNCHED_ROWS = (
    ROWS_POINTER
    + """
def run(x):
    m, n = x.shape
    out = torch.empty_like(x)
    rows[(m,)](x, out, n, triton.next_power_of_2(n))
    return out
"""
)
"""Rows whose tile is as wide as they are, launched without hints."""
