"""What the host keeps to when it launches a kernel is told as constraints, with its lines."""

from __future__ import annotations

import pytest

from extractors.patterns.cases import POINTER, TILE
from kb.analysis.constraints import constraints_of
from tests.extractors.rules.support import subject, subjects

_ROWS = (
    POINTER
    + """
import torch
@triton.jit
def rows(x, y, out, sx, n, first, W: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, W)
    v = tl.load(x + row * sx + at, mask=at + first < n, other=0.0)
    tl.atomic_add(out + at, v, mask=at < n)
    tl.store(y + row * sx + at, tl.sum(v, axis=0) + v, mask=at < n)

def run(x, y, out):
    m, n = x.shape
    if n % 8 == 0:
        rows[(m,)](x, y, out, x.stride(0), n, 0, triton.next_power_of_2(n))
"""
)
_SHARES = (
    TILE
    + """
import torch
@ct.kernel(occupancy=4)
def parts(x, sums, W: Int):
    i = ct.bid(0)
    tile = ct.load(x, index=(i, 0), shape=(1, W))
    ct.store(sums, index=(i, 0), tile=tile)

def run(x):
    sms = torch.cuda.get_device_properties("cuda").multi_processor_count
    blocks = min(sms * 4, x.shape[0])
    sums = torch.zeros((blocks, 64))
    ct.launch(None, (blocks, 1, 1), parts, (x, sums, 64))
    return sums
"""
)


@pytest.mark.parametrize(
    ("text", "expression", "line"),
    [
        pytest.param(_ROWS, "W == next_power_of_two(n)", 16, id="rounded by the host"),
        pytest.param(
            _ROWS.replace("triton.next_power_of_2(n))", "max(16, triton.next_power_of_2(n)))"),
            "W == max(16, next_power_of_two(n))",
            16,
            id="rounded, and of a least size",
        ),
        pytest.param(_ROWS, "first == 0", 16, id="an offset that is never used"),
        pytest.param(_ROWS, "n % 8 == 0", 15, id="the condition of the only launch"),
        pytest.param(
            _ROWS.replace("if n % 8 == 0", "if n != 0"), "n > 0", 15, id="nothing is launched for"
        ),
        pytest.param(_SHARES, "sums.shape[0] == grid[0]", 16, id="one row per block"),
        pytest.param(
            _SHARES.replace("min(sms * 4, x.shape[0])", "sms"),
            "sums.shape[0] == grid[0]",
            16,
            id="one row per multiprocessor",
        ),
        pytest.param(_SHARES, "sums.initial == 0", 16, id="filled with zeros"),
        pytest.param(_SHARES, "occupancy == 4", 15, id="blocks per multiprocessor"),
    ],
)
def test_what_the_host_keeps_to(text: str, expression: str, line: int) -> None:
    found = {c.expression: c for c in subject(text).host.constraints}
    assert expression in found
    assert found[expression].lines == (line, line)
    assert found[expression].checked_by_host


_PASSES = (
    POINTER
    + """
import torch
@triton.jit
def ahead(x, out, n, W: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, W)
    tl.store(out + at, tl.load(x + at))

@triton.jit
def back(g, out, n, W: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, W)
    tl.store(out + at, tl.load(g + at))

class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, out):
        ahead[(x.shape[0],)](x, out, x.shape[1], 64)
        return out

    @staticmethod
    def backward(ctx, g):
        out = torch.empty_like(g)
        back[(g.shape[0],)](g, out, g.shape[1], 64)
        return out

def run(x, out):
    if x.shape[1] > 64 or x.stride(-1) != 1:
        return x.clone()
    return Rows.apply(x, out)
"""
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(_PASSES, {"x.shape[1] <= 64", "x.stride[-1] == 1"}, id="told before"),
        pytest.param(
            _PASSES + "\ndef more(x, out):\n    return Rows.apply(x, out)\n",
            set(),
            id="another way to the forward pass",
        ),
        pytest.param(
            _PASSES
            + "\ndef more(x, out):\n    if x.stride(-1) == 1:\n        Rows.apply(x, out)\n",
            {"x.stride[-1] == 1"},
            id="what both ways share",
        ),
    ],
)
def test_what_the_forward_pass_is_under(text: str, expected: set[str]) -> None:
    found = subjects(text)["back"].host.constraints
    assert {c.expression for c in found if c.because and "forward" in c.because} == expected


@pytest.mark.parametrize(
    ("old", "new", "expression"),
    [
        pytest.param("triton.next_power_of_2(n))", "n)", "W == n", id="passed as it is"),
        pytest.param(
            "triton.next_power_of_2(n))", "min(64, triton.next_power_of_2(n)))",
            "W == min(64, next_power_of_two(n))", id="held below a number",
        ),
        pytest.param(
            "triton.next_power_of_2(n))", "n == triton.next_power_of_2(n))",
            "W == n == next_power_of_two(n)", id="a flag",
        ),
        pytest.param("n, 0, triton", "n, m, triton", "first == 0", id="an offset"),
        pytest.param("    if n % 8 == 0:\n", "    if True:\n", "n % 8 == 0", id="no condition"),
        pytest.param("n % 8 == 0", "n != 7", "n > 7", id="another case is left out"),
        pytest.param("n % 8 == 0", "n % 8 != 0", "n % 8 > 0", id="whole parts are left out"),
    ],
)  # fmt: skip
def test_what_it_does_not_keep_to(old: str, new: str, expression: str) -> None:
    assert old in _ROWS
    found = {c.expression for c in subject(_ROWS.replace(old, new)).host.constraints}
    assert expression not in found


def test_what_the_program_asks_of_its_arrays() -> None:
    found = {c.expression: c.lines for c in constraints_of(subject(_ROWS).facts)}
    assert "out.initial == 0" in found
    assert "x.stride[-2] == y.stride[-2]" in found
    assert "x.numel <= 2147483647" in found
    assert "x.stride[-1] == 1 and out.stride[-1] == 1 and y.stride[-1] == 1" in found


def test_rows_of_two_parts_have_another_stride() -> None:
    assert "y + row * sx" in _ROWS
    doubled = _ROWS.replace("y + row * sx", "y + row * 2 * sx")
    found = {c.expression for c in constraints_of(subject(doubled).facts)}
    assert not any("x.stride[-2] ==" in one for one in found)


def test_what_blocks_add_to_is_not_set_first() -> None:
    set_first = _ROWS.replace("    tl.atomic_add(", "    tl.store(out + at, v)\n    tl.atomic_add(")
    found = constraints_of(subject(set_first).facts)
    assert "out.initial == 0" not in {c.expression for c in found}


_TURNS = (
    POINTER
    + """
@triton.jit
def turns(x, n, STEP: tl.constexpr, T: tl.constexpr):
    for row in range(tl.program_id(0), n, STEP):
        tl.store(x + row.to(tl.int64) * T + tl.arange(0, T), 0.0)
"""
)
_ON_AND_ON = _TURNS.replace(
    "    for row in range(tl.program_id(0), n, STEP):\n",
    "    row = tl.program_id(0)\n    for part in range(3):\n      while row < tl.load(x + part):\n",
).replace(", 0.0)\n", ", 0.0)\n        row += STEP\n")
_BOUNDED = "grid[0] <= STEP and grid[0] >= min(STEP, n)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(_TURNS, [_BOUNDED], id="items that are counted"),
        pytest.param(_ON_AND_ON, ["grid[0] == STEP"], id="items that are not known"),
        pytest.param(_TURNS.replace("n, STEP)", "n, tl.num_programs(0))"), [], id="all blocks"),
        pytest.param(_TURNS.replace("tl.program_id(0), n", "0, n"), [], id="items of one block"),
        pytest.param(
            _TURNS.replace("(tl.program_id(0), n", "(tl.program_id(0) * T, n"), [],
            id="pieces of several items",
        ),
    ],
)  # fmt: skip
def test_blocks_that_take_turns(text: str, expected: list[str]) -> None:
    found = [c.expression for c in constraints_of(subject(text).facts)]
    assert [one for one in found if one.startswith("grid[")] == expected
