"""verify --roundtrip on small files: what is compared, what is listed, what is remembered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli import app
from api.roundtrip import (
    KernelCheck,
    Request,
    Stage,
    check_from_dict,
    report,
    roundtrip,
    targets_asked,
)
from api.source_files import source_tree
from generators.compile_pool import available
from kb.errors import InputError

pytestmark = pytest.mark.skipif(not available("triton"), reason="triton is not installed")
TARGET = {"triton": ("sm_90",), "cutile": ("sm_90",)}
GOOD = """
import triton
import triton.language as tl

@triton.jit
def _scaled(x, s):
    return x * s

@triton.jit
def good(X, Y, n, s, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, mask=at < n)
    tl.store(Y + at, _scaled(x, s), mask=at < n)

@triton.jit
def opaque(X, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first, *rest = 1, 2, 3
    tl.store(X + at, tl.load(X + at) + first)

@triton.jit
def broken(X):
    tl.store(X, tl.no_such_function(1))
"""
CUTILE = """
import cuda.tile as ct

@ct.kernel(occupancy=2)
def good(X, Y, TILE: ct.Constant[int]):
    i = ct.bid(0)
    total = ct.full((TILE, TILE), 0.0, dtype=ct.float32)
    for j in range(ct.num_tiles(X, axis=1, shape=(TILE, TILE))):
        total += ct.load(X, index=(i, j), shape=(TILE, TILE), latency=2)
    ct.store(Y, index=(i, 0), tile=total.astype(Y.dtype))
"""

UNROLLED = """
import triton
import triton.language as tl

@triton.jit
def summed(X, Y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for row in tl.static_range(BLOCK):
        total += tl.load(X + row * BLOCK * BLOCK + at[:, None] * BLOCK + at)
    tl.store(Y + at[:, None] * BLOCK + at, total)
"""

PROMISED = """
import triton
import triton.language as tl

@triton.jit
def copied(X, Y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = X + n + at
    for i in range(0, 4):
        tl.multiple_of(x, 16)
        tl.store(Y + i * BLOCK + at, tl.load(x))
        x += n
"""


def run(folder: Path, text: str) -> dict[str, KernelCheck]:
    """Verdicts on one file, by kernel."""
    (folder / "kernels.py").write_text(text)
    tree = source_tree(str(folder / "kernels.py"))
    checks = roundtrip(Request(tree=tree, cache=folder / "cache", targets=TARGET))
    return {check.name: check for check in checks}


def test_triton_verdicts(tmp_path: Path) -> None:
    checks = run(tmp_path, GOOD)
    assert checks["good"].identical is True
    assert checks["good"].front_end == {"sm_90": True}
    assert checks["opaque"].identical in (False, None)
    assert checks["opaque"].opaque > 0
    assert checks["broken"].identical is None
    assert checks["broken"].stage is Stage.SIGNATURE
    assert "no_such_function" in checks["broken"].reason


def test_a_promise_whose_result_nobody_reads_is_kept(tmp_path: Path) -> None:
    check = run(tmp_path, PROMISED)["copied"]
    assert check.identical is True
    assert check.front_end == {"sm_90": True}


def test_a_kernel_is_compared_at_a_size_that_is_not_much_work(tmp_path: Path) -> None:
    check = run(tmp_path, UNROLLED)["summed"]
    assert check.identical is True
    assert "BLOCK=64" not in check.signature


@pytest.mark.skipif(not available("cutile"), reason="the cutile extra is not installed")
def test_cutile_is_identical_tile_ir_included(tmp_path: Path) -> None:
    check = run(tmp_path, CUTILE)["good"]
    assert check.targets == {"sm_90": True}
    assert check.front_end == {"sm_90": True}
    assert check.original["sm_90"] is not None


@pytest.mark.skipif(not available("cutile"), reason="the cutile extra is not installed")
def test_a_kernel_that_a_target_cannot_hold_is_compared_on_another(tmp_path: Path) -> None:
    narrow = CUTILE.replace(
        "total.astype(Y.dtype)", "total.astype(ct.float8_e4m3fn).astype(Y.dtype)"
    )
    (tmp_path / "kernels.py").write_text(narrow)
    tree = source_tree(str(tmp_path / "kernels.py"))
    targets = {"cutile": ("sm_80", "sm_120")}
    (check,) = roundtrip(Request(tree=tree, cache=tmp_path / "cache", targets=targets))
    assert check.targets == {"sm_80": None, "sm_120": True}
    assert check.identical
    assert check.reason.startswith("sm_80: the original does not compile")


def test_the_report_has_the_public_form_and_verdicts_are_remembered(tmp_path: Path) -> None:
    first = run(tmp_path, GOOD)
    assert run(tmp_path, GOOD) == first
    rows = json.loads(json.dumps(report(first.values())))["kernels"]
    assert [sorted(row) for row in rows] == [
        ["dialect", "identical", "name", "reason", "targets"]
    ] * len(rows)


def test_a_file_that_is_not_python_is_listed(tmp_path: Path) -> None:
    (check,) = run(tmp_path, "import triton\ndef (:\n").values()
    assert check.identical is None
    assert check.reason


def test_verdicts_travel() -> None:
    check = KernelCheck(name="k", dialect="triton", path="k.py", line=3, stage=Stage.EMIT)
    data = json.loads(json.dumps({n: getattr(check, n) for n in KernelCheck.__dataclass_fields__}))
    assert check_from_dict(data) == check


def test_a_path_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no such file"):
        source_tree("/nowhere/at/all")


def test_the_command_answers_in_its_two_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELORE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "kernels.py").write_text(GOOD)
    command = ["verify", "--roundtrip", str(tmp_path / "kernels.py"), "--target", "sm_90"]
    said = CliRunner().invoke(app, [*command, "--jobs", "1", "--format", "json"])
    rows = {row["name"]: row for row in json.loads(said.stdout)["kernels"]}
    assert set(rows) == {"good", "opaque", "broken"}
    assert rows["good"] == {
        "name": "good", "dialect": "triton", "targets": {"sm_90": True}, "identical": True,
        "reason": "",
    }  # fmt: skip
    assert said.exit_code == int(rows["opaque"]["identical"] is False)
    assert "kernels.py:10 good: identical" in said.stderr
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == said.exit_code
    assert "3 kernels: 1 identical" in shown.stdout


def test_a_target_that_is_only_reported_is_compared_when_it_is_named() -> None:
    assert "sm_100" not in targets_asked()["cutile"]
    assert targets_asked(["sm_100"]) == {"cutile": ("sm_100",), "triton": ("sm_100",)}
