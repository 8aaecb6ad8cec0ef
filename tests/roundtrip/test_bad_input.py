"""Round trip on bad input: edited programs, opaque operations, compilers that fail, full disks."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from api.cli import app
from api.roundtrip import KernelCheck, Request, Stage, roundtrip
from api.source_files import source_tree
from api.subjects import design_text
from benchmarks.roundtrip.run import save
from extractors.modules import ModuleText
from extractors.read import read
from generators.compile_pool import available
from generators.emit_process import EmitProcess
from kb.errors import CannotEmit

needs_triton = pytest.mark.skipif(not available("triton"), reason="triton is not installed")
HEAD = "import triton\nimport triton.language as tl\n\n@triton.jit\n"
LOOP = f"""{HEAD}def k(X, n, B: tl.constexpr):
    at = tl.arange(0, B)
    for i in range(n):
        tl.store(X + at, tl.load(X + at, mask=at < n) + i)
"""
OPAQUE = f"""{HEAD}def k(X, B: tl.constexpr):
    at = tl.arange(0, B)
    first, *rest = 1, 2, 3
    tl.store(X + at, tl.load(X + at) + first)
"""
EIGHT_BITS = f"""{HEAD}def k(X, Y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(Y + at, tl.load(X + at).to(tl.float8e4nv).to(tl.float32))
"""


def design(text: str) -> str:
    """The DSL file of the one kernel of a text."""
    (kernel,) = read(ModuleText("", "k.py", text)).kernels
    return design_text(kernel)


@pytest.fixture(scope="module")
def emitter() -> Iterator[EmitProcess]:
    """One emitting process for all cases."""
    with EmitProcess() as process:
        yield process


@pytest.mark.parametrize(
    ("written", "edited", "said"),
    [
        pytest.param(
            "load(pointer", "lode(pointer", r"program:10: .*no operation lode", id="operation"
        ),
        pytest.param(
            "lhs %at.2, rhs %n", "lhs %gone, rhs %n", r"program:9: .*reads %gone", id="value"
        ),
        pytest.param(
            "yield() @7:4-8", "", r"program:6: .*ends without a terminator", id="no terminator"
        ),
        pytest.param(
            "do (%i.4)", "do ()", r"reads %i.4.*line 6: .*0 arguments, 1 are wanted", id="arguments"
        ),
        pytest.param("do (%i.4) {", "do (%i.4)", r"k:7:\d+: .*braces", id="no brace"),
        pytest.param("value = 0", "value = [", r"k:3:\d+: ", id="no literal"),
    ],
)  # fmt: skip
def test_an_edited_program_is_refused_with_its_line(
    emitter: EmitProcess, written: str, edited: str, said: str
) -> None:
    text = design(LOOP)
    assert written in text
    with pytest.raises(CannotEmit, match=said):
        emitter.emit(text.replace(written, edited), "triton")
    assert "def k(" in emitter.emit(text, "triton")


def test_an_opaque_operation_is_refused_with_its_span(emitter: EmitProcess) -> None:
    with pytest.raises(CannotEmit, match=r"k\.py:7:.*was not understood"):
        emitter.emit(design(OPAQUE), "triton")


def checked(folder: Path, text: str, targets: tuple[str, ...], seconds: float = 60) -> KernelCheck:
    """The verdict on the one kernel of a text."""
    (folder / "k.py").write_text(text)
    tree = source_tree(str(folder / "k.py"))
    request = Request(
        tree=tree, cache=folder / "cache", seconds=seconds, targets={"triton": targets}
    )
    (check,) = roundtrip(request)
    return check


@needs_triton
def test_a_target_without_the_feature_is_recorded(tmp_path: Path) -> None:
    check = checked(tmp_path, EIGHT_BITS, ("sm_80", "sm_90"))
    assert check.targets == {"sm_80": None, "sm_90": True}
    assert check.identical is True
    assert "sm_80: the original does not compile" in check.reason


@needs_triton
def test_a_compiler_that_hangs_is_recorded(tmp_path: Path) -> None:
    check = checked(tmp_path, LOOP, ("sm_90",), seconds=0.001)
    assert check.identical is None
    assert check.stage is Stage.SIGNATURE
    assert "ran past 0.001 s" in check.reason


@pytest.mark.parametrize("limit", [0, 1000], ids=["nothing fits", "half fits"])
def test_a_full_disk_leaves_the_old_report(tmp_path: Path, limit: int) -> None:
    old = {"kernels": ["old"]}
    path = tmp_path / "report.json"
    assert save(path, old, "the old table\n") == ""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        said = save(path, {"kernels": ["new"] * 1000}, "the new table\n" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be written" in said
    assert json.loads(path.read_text()) == old
    assert path.with_suffix(".md").read_text() == "the old table\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.json", "report.md"]


def tilelore(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(None, "no such file or folder", id="no file"),
        pytest.param("import triton\ndef (:\n", "cannot be read", id="not Python"),
        pytest.param("import triton\nx = 1\n", "no kernel", id="no kernel"),
    ],
)
def test_the_command_on_bad_input(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "k.py"
    if text is not None:
        path.write_text(text)
    result = tilelore("verify", "--roundtrip", path)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_target_that_nobody_knows(tmp_path: Path) -> None:
    result = tilelore("verify", "--roundtrip", tmp_path, "--target", "sm_1")
    assert result.exit_code == 2
    assert "sm_100, sm_120, sm_80, sm_90" in result.stderr
