"""Kernels that other files of their package launch: decisions with the file that shows them, kept
and read anew as those files change."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from api import reading_cache
from api.extract import extract_file, extract_many
from api.json_form import extract_document
from api.read_each import read_each
from api.sources import lone_file, source_files
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.reader import read
from kb.dsl.writer import write
from kb.graph.decode import decode
from kb.graph.encode import encode
from kb.graph.terms import vocabulary
from kb.ir_text import to_text
from kb.knowledge import KernelKnowledge

SCHEMA = json.loads((Path(__file__).parents[2] / "api" / "extract.schema.json").read_text())
KERNEL = """import triton
import triton.language as tl


@triton.jit
def scale(x, out, n, stride, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * stride + at, mask=at < n, other=0.0)
    tl.store(out + row * stride + at, v * 2, mask=at < n)


@triton.jit
def copy(x, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at))


def run_copy(x, out):
    copy[(4,)](x, out, 64)
"""
LAUNCHER = """import torch
import triton
from pkg.kernels import scale


def scaled(x):
    assert x.ndim == 2
    x = x.contiguous()
    out = torch.empty_like(x)
    size = triton.next_power_of_2(x.shape[1])
    scale[(x.shape[0],)](x, out, x.shape[1], x.stride(0), size, num_warps=8)
    return out
"""
OPS = "pkg/ops.py"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(reading_cache, "reader_version", lambda: "1")
    folder = tmp_path / "tree" / "pkg"
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", "kernels": KERNEL, "ops": LAUNCHER}.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def named(package: Path, name: str) -> KernelKnowledge:
    kernels = extract_file(package / "kernels.py").kernels
    return next(one for one in kernels if one.kernel.name == name)


def read_again(package: Path) -> set[str]:
    files = source_files([str(package)])
    found = dict(read_each(files, jobs=1))
    return {files[index].path.stem for index, reading in found.items() if reading.again}


def test_decisions_name_the_file_that_shows_them(package: Path) -> None:
    kernel = named(package, "scale")
    by_axis = {d.axis: d for d in kernel.decisions}
    assert (by_axis["num_warps"].file, by_axis["num_warps"].lines) == (OPS, ((11, 11),))
    tiles = by_axis["tile_padding"]
    assert tiles.file is None
    assert set(tiles.lines) >= {(8, 8)}
    assert (OPS, (10, 10)) in tiles.elsewhere
    assert (OPS, (11, 11)) in by_axis["work_decomposition"].elsewhere
    last = len(KERNEL.splitlines())
    assert all(line <= last for d in kernel.decisions if d.file is None for _, line in d.lines)
    (launch,) = kernel.launches
    assert (launch.file, launch.lines, launch.host_function) == (OPS, (11, 11), "scaled")
    stated = [c for c in kernel.constraints if c.source == f"{OPS}:7"]
    assert [(c.expression, c.lines, c.checked_by_host) for c in stated] == [
        ("x.ndim == 2", None, True)
    ]


def test_another_kernel_of_the_file_is_told_as_before(package: Path) -> None:
    kernel = named(package, "copy")
    assert [one.file for one in kernel.launches] == [None]
    assert not any(d.file or d.elsewhere for d in kernel.decisions)


def test_the_places_are_kept_in_graph_and_text(package: Path) -> None:
    kernel = named(package, "scale")
    stored = decode(encode(kernel).quads, to_text(kernel.kernel))
    assert (stored.decisions, stored.launches, stored.constraints) == (
        kernel.decisions,
        kernel.launches,
        kernel.constraints,
    )
    document = read(write(knowledge_document(kernel)), vocabulary()).document
    assert set(document.decisions) == set(kernel.decisions)
    assert document.launches == kernel.launches
    files = [lone_file(str(package / "kernels.py"))]
    jsonschema.validate(extract_document(extract_many(files)), SCHEMA)


def test_no_rule_says_that_nothing_launches_it(package: Path) -> None:
    (package / "kernels.py").write_text(KERNEL.replace("def scale", "def scaling"))
    assert "never-launched" in {f.rule for f in named(package, "scaling").findings}
    (package / "ops.py").write_text(LAUNCHER.replace("scale", "scaling"))
    rows = named(package, "scaling").findings
    assert "never-launched" not in {f.rule for f in rows}
    last = len(KERNEL.splitlines())
    assert all(line <= last for f in rows for _, line in f.lines)


def test_a_change_of_the_launching_file_counts(package: Path) -> None:
    read_again(package)
    assert read_again(package) == set()
    (package / "ops.py").write_text(LAUNCHER.replace("num_warps=8", "num_warps=4"))
    assert read_again(package) == {"kernels", "ops"}
    assert read_again(package) == set()


def test_a_file_that_comes_to_launch_it_counts(package: Path) -> None:
    read_again(package)
    (package / "notes.py").write_text("from pkg.other import something\n")
    assert read_again(package) == set()
    (package / "more.py").write_text(LAUNCHER.replace("num_warps=8", "num_warps=2"))
    assert read_again(package) == {"kernels", "more"}
    (package / "more.py").unlink()
    assert read_again(package) == {"kernels"}
    assert read_again(package) == set()


def test_a_file_alone_looks_in_its_folder_only(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "kernels.py").write_text(KERNEL)
    (tmp_path / "below" / "ops.py").write_text(LAUNCHER.replace("pkg.kernels", "kernels"))
    assert extract_file(tmp_path / "kernels.py").kernels[0].launches == ()
    (tmp_path / "beside.py").write_text(LAUNCHER.replace("pkg.kernels", "kernels"))
    (launch,) = extract_file(tmp_path / "kernels.py").kernels[0].launches
    assert launch.file == "beside.py"
