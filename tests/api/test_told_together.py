"""Decisions that program and host tell together: one decision, with the lines of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.extract import extract_file
from kb.evidence import Decision

TEXT = """\
import torch
import triton
import triton.language as tl

@triton.jit
def plus(x, y, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    inside = at < n
    v = tl.load(x + row * n + at, mask=inside) + tl.load(y + row * n + at, mask=inside)
    tl.store(out + row * n + at, v, mask=inside)

def launch(x, y):
    x = x.view(-1, x.shape[-1])
    out = torch.empty_like(x)
    rows, n = x.shape
    size = triton.next_power_of_2(n)
    grid = (rows,)
    plus[grid](x, y, out, n, T=size)
    return out
"""


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Decision, ...]:
    path = tmp_path_factory.mktemp("told") / "plus.py"
    path.write_text(TEXT)
    (kernel,) = extract_file(path).kernels
    return kernel.decisions


@pytest.mark.parametrize(
    ("axis", "value", "lines"),
    [
        pytest.param(
            "tile_padding", "next_pow2 + OOB handling", {(9, 9), (17, 17)}, id="rule and its use"
        ),
        pytest.param("work_decomposition", "one row per CTA", {(7, 7), (18, 18)}, id="grid"),
        pytest.param("grid_mapping", "one program per row", {(7, 7), (18, 18)}, id="ids and grid"),
        pytest.param("autotuning", "closed-form rule", {(17, 17)}, id="nothing is searched"),
        pytest.param("layout_contract", "flattened view on host", {(14, 14)}, id="view"),
        pytest.param("specialization", "runtime scalar", {(6, 6)}, id="parameter lines"),
    ],
)
def test_one_decision_with_all_lines(
    decisions: tuple[Decision, ...], axis: str, value: str, lines: set[tuple[int, int]]
) -> None:
    (found,) = [d for d in decisions if d.axis == axis and d.value == value]
    assert lines <= set(found.lines)
    assert [d.axis for d in decisions].count("tile_padding") == 1


@pytest.mark.parametrize(
    ("handed", "told"),
    [
        pytest.param("x.view(-1)", ["flattened view on host"], id="where it is handed over"),
        pytest.param(
            "x.view(torch.int8)", ["seen as another type on host"], id="another type and no shape"
        ),
    ],
)
def test_a_view_handed_over(tmp_path: Path, handed: str, told: list[str]) -> None:
    lines = [line for line in TEXT.splitlines() if "x = x.view(" not in line]
    path = tmp_path / "plus.py"
    path.write_text("\n".join(lines).replace("[grid](x, y", f"[grid]({handed}, y"))
    (kernel,) = extract_file(path).kernels
    found = [d.value for d in kernel.decisions if d.axis == "layout_contract"]
    assert [one for one in found if "on host" in one] == told


@pytest.mark.parametrize(
    ("sum_", "told"),
    [
        pytest.param("v", ["products and sums joined, as asked for"], id="asked for"),
        pytest.param("tl.fdiv(v, 3.0, ieee_rounding=True)", ["rn"], id="the program rounds itself"),
    ],
)
def test_what_a_launch_asks_for_as_it_is(tmp_path: Path, sum_: str, told: list[str]) -> None:
    path = tmp_path / "plus.py"
    text = TEXT.replace("n, T=size)", "n, T=size, enable_fp_fusion=True)")
    path.write_text(text.replace("+ at, v, mask", f"+ at, {sum_}, mask"))
    (kernel,) = extract_file(path).kernels
    assert [d.value for d in kernel.decisions if d.axis == "rounding_mode"] == told


@pytest.mark.parametrize(
    ("made", "told"),
    [
        pytest.param(
            "y = y.contiguous()", {".contiguous() on host": 2}, id="contiguous, flattened"
        ),
        pytest.param("y = y + 1", {"flattened view on host": 1}, id="flattened alone"),
    ],
)
def test_a_view_of_a_contiguous_array_is_no_decision_of_its_own(
    tmp_path: Path, made: str, told: dict[str, int]
) -> None:
    path = tmp_path / "plus.py"
    path.write_text(TEXT.replace("    x = x.view(", f"    {made}\n    x = x.view("))
    (kernel,) = extract_file(path).kernels
    found = [d for d in kernel.decisions if d.axis == "layout_contract"]
    assert {d.value: len(d.lines) for d in found} == told
