"""A rewritten kernel computes what the kernel computed: Triton's interpreter on the CPU, against
PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from generators.emit import emit_program
from generators.rewrites.registry import apply
from kb.ir import Kernel
from tests.laws.programs import POINTER
from tests.laws.rewriting import kernels_of
from tests.laws.test_rewrites import FLIPS

pytest.importorskip("triton", reason="the interpreter of Triton is not installed")

RUN = """
import importlib.util, json, math, sys
from pathlib import Path
import torch

torch.manual_seed(7)
heads, size, wide = 2, 40, 16
q, k, v = (torch.randn(heads, size, wide) for _ in range(3))
rate = 1 / math.sqrt(wide)


def reference(causal):
    scores = q @ k.mT * rate
    if causal:
        scores = scores.masked_fill(~torch.ones(size, size, dtype=torch.bool).tril(), -math.inf)
    return scores.softmax(-1) @ v


def error(path, causal):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = torch.full_like(q, math.nan)
    module.attend[(math.ceil(size / 16), heads)](
        q, k, v, out, rate, size * wide, wide, size, TM=16, TN=16, W=wide, TRI=causal
    )
    return (out - reference(causal)).abs().max().item()


paths = sorted(Path(sys.argv[1]).glob("*.py"))
found = {p.stem: max(error(p, True), error(p, False)) for p in paths}
print(json.dumps(found))
"""
"""Tails on both sides (40 rows in tiles of 16), causal and not; prints the greatest error of each
file."""

TOLERANCE = 1e-5
"""Greatest absolute error of an f32 attention over unit normal values, summed in another order."""


def variants() -> dict[str, Kernel]:
    (kernel,) = kernels_of(POINTER).values()
    found = {"original": kernel}
    everything = kernel
    for axis, (_, wanted) in FLIPS["pointer"].items():
        found[axis] = apply(kernel, axis, wanted)
        everything = apply(everything, axis, wanted)
    return {**found, "everything": everything}


def test_every_flip_computes_the_same(tmp_path: Path) -> None:
    kernels = variants()
    assert len(kernels) == 10
    for name, kernel in kernels.items():
        tmp_path.joinpath(f"{name}.py").write_text(emit_program(kernel, "triton"))
    result = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)], capture_output=True, text=True, timeout=240,
        env={**os.environ, "TRITON_INTERPRET": "1"}, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    errors = json.loads(result.stdout.splitlines()[-1])
    assert set(errors) == set(kernels)
    assert {name for name, error in errors.items() if not error < TOLERANCE} == set()
