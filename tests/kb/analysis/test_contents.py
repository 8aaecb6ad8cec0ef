"""What a kernel takes for granted of the numbers in its arrays, as constraints."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import POINTER, TILE, vary
from kb.analysis.constraints import constraints_of
from tests.extractors.rules.support import subject

_GATED = (
    POINTER
    + """
@triton.jit
def gated(x, g, out, n, T: tl.constexpr, GATE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    if GATE:
        last = tl.load(g + tl.program_id(0))
        v = v * tl.exp2(last - tl.load(g + at, mask=at < n, other=0.0))
    tl.store(out + at, v, mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def weighed(x, lse, out, T: Int):
    i = ct.bid(0)
    s = ct.load(x, index=(i,), shape=(T,)) * 1.44269504
    p = ct.exp2(s - ct.load(lse, index=(i,), shape=(1,)))
    ct.store(out, index=(i,), tile=p * s)
"""
)
_PARTS = (
    POINTER
    + """
@triton.jit
def parts(x, starts, out, T: tl.constexpr):
    i = tl.program_id(0)
    begin = tl.load(starts + i).to(tl.int32)
    end = tl.load(starts + i + 1).to(tl.int32)
    n = end - begin
    at = tl.arange(0, T)
    tl.store(out + begin + at, tl.load(x + begin + at, mask=at < n), mask=at < n)
"""
)
_PARTS_OR_ALL = (
    POINTER
    + """
@triton.jit
def parts(x, starts, out, n, T: tl.constexpr, PARTS: tl.constexpr):
    i = tl.program_id(0)
    if PARTS:
        begin, end = tl.load(starts + i), tl.load(starts + i + 1)
    else:
        begin, end = i * n, i * n + n
    n = end - begin
    at = tl.arange(0, T)
    tl.store(out + begin + at, tl.load(x + begin + at, mask=at < n), mask=at < n)
"""
)
_PARTS_TILES = (
    TILE
    + """
@ct.kernel
def parts(x, starts, out, T: Int):
    i = ct.bid(0)
    begin = ct.load(starts, index=(i,), shape=(1,)).item()
    n = ct.load(starts, index=(i + 1,), shape=(1,)).item() - begin
    if n > 0:
        ct.store(out, index=(i,), tile=ct.load(x, index=(begin,), shape=(T,)))
"""
)
_SLOTS = (
    POINTER
    + """
@triton.jit
def keep(x, slots, cache, D: tl.constexpr):
    i = tl.program_id(0)
    slot = tl.load(slots + i).to(tl.int64)
    at = tl.arange(0, D)
    tl.store(cache + slot * D + at, tl.load(x + i * D + at))
"""
)
_OVER = (
    POINTER
    + """
@triton.jit
def twice(x, y, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)
"""
)
_SPLIT = (
    POINTER
    + """
@triton.jit
def total(x, out, n, T: tl.constexpr, SPLIT: tl.constexpr):
    at = tl.program_id(1).to(tl.int64) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    if SPLIT > 1:
        tl.atomic_add(out + at, v, mask=at < n)
    else:
        tl.store(out + at, v, mask=at < n)
"""
)
_HOT = (
    POINTER
    + """
@triton.jit
def hot(x, out, n, t, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    inverse = 1.0 / t
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32) * inverse
    tl.store(out + at, v, mask=at < n)
"""
)
_PICKED = (
    TILE
    + """
@ct.kernel
def picked(x, ids, out):
    i = ct.bid(0)
    at = ct.arange(1, dtype=ct.int32) + ct.load(ids, i, shape=())
    ct.scatter(out, (i,), ct.sum(ct.gather(x, (i, at), check_bounds=False), 0))
"""
)


def told(text: str) -> set[str]:
    return {constraint.expression for constraint in constraints_of(subject(text).facts)}


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        pytest.param(_GATED, "not GATE or g.log_base == 2", id="gates that two is raised to"),
        pytest.param(_TILES, "lse.log_base == 2", id="a log-sum-exp that is taken off"),
        pytest.param(_PARTS, "starts.values[i] <= starts.values[i + 1]", id="begin and end"),
        pytest.param(
            _PARTS_OR_ALL, "starts.values[i] <= starts.values[i + 1]", id="on one side of a branch"
        ),
        pytest.param(_PARTS_TILES, "starts.values[i] <= starts.values[i + 1]", id="tiles"),
        pytest.param(_SLOTS, "slots.repeats == 0", id="slots of a cache"),
        pytest.param(
            _SLOTS, "slots.values >= 0 and slots.values < cache.numel", id="slots inside the cache"
        ),
        pytest.param(_OVER, "x.uses_after == 0", id="written over"),
        pytest.param(_SPLIT, "SPLIT <= 1 or out.initial == 0", id="added where it is split"),
        pytest.param(_HOT, "t != 0", id="elements scaled by a reciprocal"),
        pytest.param(
            _PICKED, "ids.values >= 0 and ids.values < x.shape[1]", id="one lane at a place"
        ),
    ],
)
def test_what_is_told(text: str, expression: str) -> None:
    assert expression in told(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        pytest.param(
            vary(_GATED, ("tl.exp2(last", "tl.exp2(1.44269504 * (last"), ("0.0))", "0.0)))")),
            "log_base",
            id="turned into base two by the kernel",
        ),
        pytest.param(vary(_GATED, ("v * tl.exp2", "0.0 - tl.exp2")), "log_base", id="no weight"),
        pytest.param(vary(_PARTS, ("n = end - begin", "n = end")), "[i]", id="no difference"),
        pytest.param(vary(_PARTS, ("i + 1)", "i + 2)")), "[i]", id="no neighbours"),
        pytest.param(vary(_SLOTS, ("tl.store", "tl.atomic_add")), "repeats", id="added"),
        pytest.param(
            vary(_SLOTS, ("    tl.store", "    if slot >= 0:\n        tl.store")),
            "values <",
            id="a slot that is asked for",
        ),
        pytest.param(vary(_SLOTS, ("slot * D + at", "slot + at")), "values <", id="a part begins"),
        pytest.param(
            vary(_SLOTS, ("slot * D", "(i * 4 + slot) * D")), "repeats", id="places of the block"
        ),
        pytest.param(vary(_OVER, ("store(x", "store(y")), "uses_after", id="another array"),
        pytest.param(vary(_OVER, ("* 2.0", "+ 2.0")), "uses_after", id="a sum that goes on"),
        pytest.param(
            vary(_SLOTS, ("slot * D + at", "slot + at")), "repeats", id="where a part begins"
        ),
        pytest.param(
            vary(_SLOTS, ("slot * D", "slot * D + n * D"), ("x, slots", "n, x, slots")),
            "repeats",
            id="moved by a number",
        ),
        pytest.param(
            vary(_SPLIT, ("    else:\n        tl.store", "    if n > 4:\n        tl.store")),
            "initial",
            id="the same blocks set and add",
        ),
        pytest.param(
            vary(_HOT, (".to(tl.float32) * inverse", ""), ("at, v,", "at, tl.sum(v) * inverse,")),
            "t != 0",
            id="a count",
        ),
    ],
)
def test_what_is_not_told(text: str, word: str) -> None:
    assert not any(word in expression for expression in told(text))
