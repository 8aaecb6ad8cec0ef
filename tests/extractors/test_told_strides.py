"""Which axis of an array a stride belongs to is the host's to say; how a tile lies follows."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import vary
from extractors.told_strides import ANY_ORDER, DENSE, OTHER_ORDER, in_any_order, laid_out
from extractors.told_together import told_together
from tests.extractors.rules.support import subject

_PRODUCT = """import torch
import triton
import triton.language as tl

@triton.jit
def product(a, b, out, n, s0, s1, t0, t1, u0, u1, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    col = tl.arange(0, T)
    x = tl.load(a + row[:, None] * s0 + col[None, :] * s1)
    y = tl.load(b + col[None, :] * t0 + row[:, None] * t1)
    tl.store(out + row[:, None] * u0 + col[None, :] * u1, tl.dot(x, y))

def run(a, b):
    out = torch.empty_like(a)
    product[(4,)](
        a, b, out, a.shape[0], a.stride(0), a.stride(1),
        b.stride(0), b.stride(1), out.stride(0), out.stride(1), T=16,
    )
    return out
"""
_MOVE = """import torch
import triton
import triton.language as tl

@triton.jit
def move(x, out, s0, s1, s2, t0, t1, t2, T: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    at = tl.arange(0, T)
    v = tl.load(x + i * s0 + j * s1 + at * s2)
    tl.store(out + j * t0 + i * t1 + at * t2, v + 1.0)

def run(x, out):
    move[(4, 4)](
        x, out, x.stride(0), x.stride(1), x.stride(2),
        out.stride(0), out.stride(1), out.stride(2), T=16,
    )
    return out
"""
_STORED = vary(
    _PRODUCT, ("col[None, :] * t0 + row[:, None] * t1", "row[:, None] * t0 + col[None, :] * t1")
)
_ADDRESSED = "transposed by the addresses of the load"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        pytest.param(_PRODUCT, {(_ADDRESSED, "b")}, id="rows along the last axis"),
        pytest.param(
            vary(_PRODUCT, ("b.stride(0), b.stride(1)", "b.stride(1), b.stride(0)")),
            set(),
            id="rows along the first axis",
        ),
        pytest.param(
            vary(_PRODUCT, ("+ row[:, None] * t1", "+ (row % n)[:, None] * t1")),
            {(_ADDRESSED, "b")},
            id="rows that wrap around",
        ),
        pytest.param(
            vary(_PRODUCT, ("b.stride(0), b.stride(1)", "64, 1")), set(), id="axes untold"
        ),
        pytest.param(_MOVE, {(OTHER_ORDER, None)}, id="axes in another order"),
        pytest.param(vary(_MOVE, ("j * t0 + i * t1", "i * t0 + j * t1")), set(), id="one order"),
    ],
)
def test_order_of_axes_by_the_strides_of_the_launch(
    source: str, told: set[tuple[str, str | None]]
) -> None:
    found = subject(source)
    decisions = [*laid_out(detect(found.facts.kernel, found.host), found.host)]
    assert {(d.value, d.subject) for d in decisions} == told
    assert all(d.axis == "operand_layout" and d.lines for d in decisions)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        pytest.param(_STORED, [ANY_ORDER], id="every axis of both operands has a stride"),
        pytest.param(_PRODUCT, [], id="an operand that is read turned"),
        pytest.param(
            vary(_STORED, ("    out = ", "    a = a.contiguous()\n    out = ")),
            [],
            id="the host puts an operand in order",
        ),
        pytest.param(
            vary(_STORED, ("col[None, :] * t1", "col[None, :]"), ("t0, t1,", "t0,"),
                 ("b.stride(0), b.stride(1)", "b.stride(0)")),
            [],
            id="columns lie side by side",
        ),
    ],
)  # fmt: skip
def test_any_order_of_axes(source: str, told: list[str]) -> None:
    found = subject(source)
    detection = detect(found.facts.kernel, found.host)
    program = [*detection.decisions, *laid_out(detection, found.host), *found.host.decisions]
    assert [d.value for d in in_any_order(detection, found.host, program)] == told


_ROWS = """import torch
import triton
import triton.language as tl

@triton.jit
def scale(x, by, out, sx, so, heads, T: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    at = tl.arange(0, T)
    w = tl.load(by + i * heads + j)
    v = tl.load(x + (i * 8 + j) * sx + at)
    tl.store(out + (i * 8 + j) * so + at, v * w)

def run(x, by):
    assert x.is_contiguous()
    out = torch.empty_strided((32, 64), (128, 1))
    scale[(4, 8)](x, by, out, x.stride(0), out.stride(0), by.shape[1], T=64)
    return out
"""


def _layouts(source: str) -> dict[str, set[int]]:
    """Lines of each way in which arrays must lie."""
    found = subject(source)
    detection = detect(found.facts.kernel, found.host)
    told = told_together(detection, found.host)
    rows = [d for d in told if d.axis == "layout_contract"]
    return {d.value: {n for first, last in d.lines for n in (first, last)} for d in rows}


@pytest.mark.parametrize(
    ("handed", "extent"),
    [
        pytest.param("by.shape[1]", True, id="an extent is no stride"),
        pytest.param("by.stride(0)", False, id="a stride"),
    ],
)
def test_what_is_as_far_apart_as_an_extent(handed: str, extent: bool) -> None:
    found = _layouts(_ROWS.replace("by.shape[1]", handed))
    assert (10 in found["strides as arguments"]) is not extent
    assert found["strides as arguments"] > {11, 12}
    assert DENSE not in found


def test_extents_alone_mean_rows_that_follow_each_other() -> None:
    found = _layouts(vary(_ROWS, ("* sx", "* 64"), ("* so", "* 64")))
    assert 10 in found[DENSE]
    assert "strides as arguments" not in found


def test_a_part_of_a_tile_is_no_stride() -> None:
    found = _layouts(_ROWS.replace("by.shape[1]", "by.shape[1] // 2"))
    assert 10 not in found["strides as arguments"]
    assert DENSE not in found


@pytest.mark.parametrize(
    ("demanded", "lines"),
    [
        pytest.param("x", {6, 11, 12, 15}, id="an array whose rows have a stride"),
        pytest.param("by", {15}, id="another array"),
    ],
)
def test_arrays_that_are_checked_are_told_with_their_own_strides(
    demanded: str, lines: set[int]
) -> None:
    checked = _ROWS.replace("x.is_contiguous()", f"{demanded}.is_contiguous()")
    found = _layouts(vary(checked, ("by + i * heads + j", "by + i")))
    assert found["contiguous tensors demanded"] == lines
    assert (15 in found["strides as arguments"]) is (demanded == "x")
