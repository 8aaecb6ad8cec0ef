"""Which operation a kernel is taken for."""

from __future__ import annotations

import pytest

from kb.analysis.operations import operation_of
from tests.kb.analysis.support import facts

MERGE = """
import triton
import triton.language as tl
@triton.jit
def merge(mid, out, n, s, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    top = -float("inf")
    total = 0.0
    acc = tl.zeros([T], dtype=tl.float32)
    for i in range(n):
        part = tl.load(mid + row * s + i * (T + 1) + at)
        lse = tl.load(mid + row * s + i * (T + 1) + T)
        new = tl.maximum(lse, top)
        old = tl.exp(top - new)
        share = tl.exp(lse - new)
        acc = acc * old + share * part
        total = total * old + share
        top = new
    tl.store(out + row * T + at, acc / total)
"""
GATE = """
import triton
import triton.language as tl
@triton.jit
def gate(x, y, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at)
    tl.store(out + at, v / (1 + tl.exp(-v)) * tl.load(y + at))
"""
COMPACTED = """
import triton
import triton.language as tl
@triton.jit
def compact(flags, src, dst, n, w, B: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, B)
    on = tl.load(flags + at, mask=at < n, other=0)
    rank = tl.cumsum(on, axis=0)
    row = tl.sum(tl.where((rank == tl.program_id(0) + 1) & (on != 0), at, 0), axis=0)
    d = tl.arange(0, T)
    tl.store(dst + tl.program_id(0) * w + d, tl.load(src + row * w + d, mask=d < w), mask=d < w)
"""
"""Rows that a mask keeps are copied to the front: sums only say where from."""
ROTATED = """
import triton
import triton.language as tl
@triton.jit
def rotate(x, c, s, out, H: tl.constexpr):
    at = tl.arange(0, H)
    base = tl.program_id(0) * 2 * H
    a = tl.load(x + base + at)
    b = tl.load(x + base + H + at)
    r = tl.rsqrt((tl.sum(a * a, axis=0) + tl.sum(b * b, axis=0)) / (2 * H) + 1e-6)
    a = a * r
    b = b * r
    tl.store(out + base + at, a * tl.load(c + at) - b * tl.load(s + at))
    tl.store(out + base + H + at, b * tl.load(c + at) + a * tl.load(s + at))
"""
"""An RMS norm, then pairs are rotated: no mean is taken away."""
SAMPLED = """
import triton
import triton.language as tl
@triton.jit
def sample(x, out, seed, n, T: tl.constexpr):
    at = tl.arange(0, T)
    u = tl.rand(seed, at)
    v = tl.load(x + at, mask=at < n, other=-float("inf"))
    v = tl.where(u > 0.0, v - tl.log(-tl.log(u)), 0.0)
    tl.store(out, tl.argmax(v, axis=0))
"""
ROUNDED = """
import triton
import triton.language as tl
@triton.jit
def quantise(x, out, scales, seed, n, T: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, T)
    v = tl.load(x + at, mask=tl.arange(0, T) < n, other=0.0)
    top = tl.max(tl.abs(v), axis=0)
    u = v * 7.0 / top + tl.rand(seed, at)
    tl.store(out + at, tl.where(u > 7.0, 0.0, tl.floor(u)))
    tl.store(scales + tl.program_id(0), top)
"""
DROPPED = """
import triton
import triton.language as tl
@triton.jit
def drop(x, out, seed, p, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, v * (tl.rand(seed, at) > p) / (1 - p), mask=at < n)
"""
TAPS = """
import triton
import triton.language as tl
@triton.jit
def blur(x, w, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    u = tl.load(x + at, mask=at < n, other=0.0) * tl.load(w)
    u += tl.load(x + at + 1, mask=at + 1 < n, other=0.0) * tl.load(w + 1)
    tl.store(out + at, u, mask=at < n)
"""
LOGARITHMS = """
import triton
import triton.language as tl
@triton.jit
def logs(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=-float("inf"))
    top = tl.max(v, axis=0)
    total = tl.sum(tl.exp(v - top), axis=0)
    tl.store(out + tl.program_id(0) * n + at, v - top - tl.log(total), mask=at < n)
"""

GRADIENT = """
import triton
import triton.language as tl
@triton.jit
def gradient(e, c, lse, grad, d, out, V, D: tl.constexpr, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    at = tl.arange(0, D)
    mine = tl.load(e + rows[:, None] * D + at[None, :])
    top = tl.load(lse + rows)
    acc = tl.zeros([T, D], dtype=tl.float32)
    for start in range(0, V, T):
        cols = start + tl.arange(0, T)
        other = tl.load(c + cols[:, None] * D + at[None, :])
        p = tl.exp(tl.dot(mine, tl.trans(other)) - top[:, None])
        p = p * WEIGHT
        acc = tl.dot(p, other, acc)
    tl.store(out + rows[:, None] * D + at[None, :], acc)
"""
"""Probabilities rebuilt from a saved statistic, weighed, and multiplied with loaded rows."""
OF_LOSS = GRADIENT.replace("WEIGHT", "tl.load(grad + rows)[:, None]")
OF_SCORES = GRADIENT.replace(
    "WEIGHT",
    "(tl.dot(tl.load(grad + rows[:, None] * D + at[None, :]), tl.trans(other))"
    " - tl.load(d + rows)[:, None])",
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(MERGE, "split_kv_combine", id="partial results one after the other"),
        pytest.param(TAPS, "convolution", id="neighbours times loaded weights"),
        pytest.param(TAPS.replace("tl.load(w + 1)", "0.5"), "elementwise", id="one weight loaded"),
        pytest.param(GATE, "gated_activation", id="one load through a curve times another"),
        pytest.param(LOGARITHMS, "softmax", id="logarithms of a softmax"),
        pytest.param(COMPACTED, "access_map", id="a copy whose rows a scan finds"),
        pytest.param(ROTATED, "rmsnorm", id="a norm and a rotation"),
        pytest.param(DROPPED, "dropout", id="elements times whether they are kept"),
        pytest.param(ROUNDED, "reduction", id="draws that round, no dropout"),
        pytest.param(SAMPLED, "random_map", id="an index drawn at random, no dropout"),
        pytest.param(OF_SCORES, "fmha_bwd_dq", id="probabilities meet a product of gradients"),
        pytest.param(OF_LOSS, None, id="the gradient of a loss over products, no attention"),
    ],
)
def test_operation(text: str, name: str | None) -> None:
    assert operation_of(facts(text)) == name
