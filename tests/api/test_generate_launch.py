"""Modules for kernels that were read from Triton: what the host computes, and what it has to be
told.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib import util
from pathlib import Path

import pytest

from api.generate import generate
from api.verify import stated_facts
from extractors.modules import ModuleText
from extractors.read import read
from kb.dsl.model import Document, DocumentKind
from kb.ir_text import to_text
from kb.space import (
    Binding,
    Constraint,
    DesignSpace,
    GuardedPoints,
    Launch,
    Origin,
    Tuning,
)

SOURCE = """
import triton
import triton.language as tl


@triton.jit
def scaled_rows(X, Y, stride, n, factor, ROUND: tl.constexpr, BLOCK: tl.constexpr, extra):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(X + row * stride + at, mask=at < n, other=0.0)
    if ROUND:
        x = x + 1.0
    tl.store(Y + row * stride + at, x * factor + extra, mask=at < n)
"""
BOUND = {
    "X": "x", "Y": "out", "stride": "x.stride[0]", "n": "X.numel() // x.shape[0]",
    "factor": "scale", "ROUND": "True", "BLOCK": "next_power_of_two(x.shape[1])",
    "extra": "settings.extra",
}  # fmt: skip
CALL = """
import importlib.util, json, sys, torch
spec = importlib.util.spec_from_file_location("m", sys.argv[1])
m = importlib.util.module_from_spec(spec)
spec.loader.exec_module(m)
x, out = torch.arange(12.0).view(3, 4), torch.zeros(3, 4)
m.rows(x, out, 2.0, 1.0)
said = ""
try:
    m.rows(x[0], out, 2.0, 1.0)
except ValueError as problem:
    said = str(problem)
print(json.dumps({"same": torch.equal(out, (x + 1) * 2 + 1), "said": said}))
"""


def launch(
    bound: dict[str, str], grid: tuple[str, ...] = ("x.shape[0]",), line: int = 30
) -> Launch:
    return Launch(
        grid=grid, hints=(("num_warps", "8 if x.shape[1] > 512 else 4"),), lines=(line, line),
        bindings=tuple(Binding(parameter=p, expression=e) for p, e in bound.items()),
    )  # fmt: skip


def document(*launches: Launch, tuning: Tuning | None = None) -> Document:
    (kernel,) = read(ModuleText("rows", "rows.py", SOURCE)).kernels
    space = DesignSpace(
        name="scaled_rows", operation="rows", axes=(), dialect="triton", source_digest="0" * 64,
        constraints=(Constraint(expression="BLOCK >= n", origin=Origin.IMPLIED),),
    )  # fmt: skip
    return Document(
        space=space, kind=DocumentKind.KERNEL, launches=launches, tuning=tuning,
        program=to_text(kernel),
    )  # fmt: skip


def host_of(text: str) -> str:
    return text[text.index("\ndef rows(") :]


def test_what_follows_from_sizes_is_computed_and_the_rest_is_asked_for() -> None:
    text = generate(document(launch(BOUND)), "triton")
    host = host_of(text)
    parameters = ast.parse(host.strip()).body[0].args.args  # type: ignore[attr-defined]
    assert [parameter.arg for parameter in parameters] == ["X", "Y", "scale", "extra"]
    assert "stride = X.stride(0)" in host
    assert "n = math.prod(X.shape) // X.shape[0]" in host
    assert "BLOCK = triton.next_power_of_2(X.shape[1])" in host
    assert "if not BLOCK >= n:" in host
    assert "Y: written by the kernel" in host
    assert "grid = (X.shape[0],)" in host
    assert "num_warps=8 if X.shape[1] > 512 else 4" in host
    assert "extra=extra" in host, "it follows a compile-time value, so it has no place"
    assert "extra: an argument, not told by the others; the source passes `settings.extra`" in text


def test_without_a_launch_everything_is_asked_for() -> None:
    host = host_of(generate(document(), "triton"))
    assert "grid: tuple[int, ...]" in host
    assert "stride: int | float | bool" in host
    assert "_rows[grid](" in host


def test_constants_in_which_launches_differ_have_a_default() -> None:
    other = launch({**BOUND, "ROUND": "False"}, line=40)
    text = generate(document(launch(BOUND), other), "triton")
    assert "ROUND: int | float | bool = True" in host_of(text)
    assert "launch: one of 2 in the source (line 30, 40)" in text


def test_searched_points_are_written_and_one_is_chosen() -> None:
    points = tuple((("BLOCK", size), ("num_warps", warps)) for size, warps in ((64, 2), (128, 4)))
    tuning = Tuning(
        mechanism="triton.autotune", spaces=(GuardedPoints(when="always", points=points),)
    )
    text = generate(document(launch(BOUND), tuning=tuning), "triton")
    assert "\nBLOCK = 64\n" in text
    assert "num_warps=2," in text
    tail = text[text.index("SEARCHED = ") + len("SEARCHED = ") : text.index("@triton.jit")]
    assert ast.literal_eval(tail.strip()) == [dict(point) for point in points]
    chosen = generate(document(launch(BOUND), tuning=tuning), "triton", {"block": "128"})
    assert "\nBLOCK = 128\n" in chosen
    assert stated_facts(chosen, "x")["design_point"]["BLOCK"] == 128


def test_words_of_a_launch_cannot_become_code() -> None:
    hostile = {**BOUND, "factor": "__import__('os').system('true')"}
    text = generate(document(launch(hostile)), "triton")
    calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)]
    assert "__import__" not in {name.id for name in calls}
    assert "factor: int | float | bool" in host_of(text)


def test_the_module_runs(tmp_path: Path) -> None:
    if util.find_spec("numpy") is None:
        pytest.skip("Triton's interpreter needs NumPy")
    path = tmp_path / "rows_module.py"
    path.write_text(generate(document(launch(BOUND)), "triton"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", CALL, str(path)], capture_output=True, text=True, check=True,
        env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=120,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"same": True, "said": "X has 1 axes; the launch reads 2 of them"}


def test_same_input_same_bytes() -> None:
    one = document(launch(BOUND))
    assert generate(one, "triton") == generate(replace(one), "triton")
