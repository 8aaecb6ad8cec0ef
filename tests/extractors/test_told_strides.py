"""Which axis of an array a stride belongs to is the host's to say; how a tile lies follows."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.host.samples import vary
from extractors.told_strides import ANY_ORDER, OTHER_ORDER, in_any_order, laid_out
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
