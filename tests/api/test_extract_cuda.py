"""CUDA C++ on the whole road: extract, graph, shapes, store, explain; and no way to write it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api.extract import extract_file
from api.including import look_anew
from api.source_files import source_tree
from api.sources import source_files
from generators.emit import emit_program
from kb.errors import CannotEmit
from kb.graph.decode_program import decode_program
from kb.graph.encode_program import encode_program
from kb.ir_text import program_digest
from kb.knowledge import KernelKnowledge
from kb.planner.expressions import parse
from tests.api.test_cli import tilelore
from tests.extractors.cuda.samples import SAMPLES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Every sample in a file of its own, one header, one file without kernels."""
    for name, text in SAMPLES.items():
        (tmp_path / f"{name}.cu").write_text(text, encoding="utf-8")
    (tmp_path / "plain.h").write_text("int f();\n", encoding="utf-8")
    return tmp_path


def kernel(folder: Path, name: str) -> KernelKnowledge:
    (found,) = extract_file(folder / f"{name}.cu").kernels
    return found


def test_files_with_kernels_are_found(folder: Path) -> None:
    names = [file.name for file in source_tree(str(folder)).files]
    assert names == sorted(f"{name}.cu" for name in SAMPLES)
    assert len(source_files([str(folder)])) == len(SAMPLES)


def test_layer_norm_is_understood(folder: Path) -> None:
    found = kernel(folder, "layer_norm")
    assert (found.source.dialect, found.operation, found.opaque) == ("cuda", "layernorm", 0)
    seen = {(d.axis, d.value) for d in found.decisions}
    assert ("accum_dtype", "fp32, one narrowing cast before the store") in seen
    assert ("io_cast", "upcast on load, downcast on store") in seen
    assert ("index_width", "int64 opt-in") in seen
    assert found.launches[0].grid == ("rows",)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_program_survives_the_graph(folder: Path, name: str) -> None:
    program = kernel(folder, name).kernel
    assert decode_program(encode_program(program)) == program


def test_store_takes_every_sample(folder: Path, tmp_path: Path) -> None:
    """The command checks every graph against the shapes before it is stored."""
    where = tmp_path / "kb"
    assert tilelore("extract", folder, "--kb", where).exit_code == 0
    found = json.loads(tilelore("kb", "stats", "--kb", where, "--format", "json").stdout)
    assert found["kernels"] == len(SAMPLES)
    told = tilelore("explain", "layer_norm", "--kb", where)
    assert "operation: layernorm" in told.stdout
    assert tilelore("lint", folder / "copy.cu").exit_code in (0, 1)


def test_headers_of_a_lone_file_lie_in_its_project(tmp_path: Path) -> None:
    """The folder that says where a project begins is not left, and it names the file."""
    for name in ("csrc/include", "csrc/ops"):
        (tmp_path / "project" / name).mkdir(parents=True)
    files = {
        "outside.h": "__device__ float more(float x) { return x + 2.f; }\n",
        "project/csrc/include/twice.h": "__device__ float twice(float x) { return x * 2.f; }\n",
        "project/csrc/ops/k.cu": '#include "twice.h"\n#include "../../../outside.h"\n'
        "__global__ void k(float* x) { x[0] = twice(x[0]); x[1] = more(x[1]); }\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    path = tmp_path / "project/csrc/ops/k.cu"
    alone = extract_file(path)
    assert (alone.kernels[0].opaque, alone.source.path) == (2, "k.cu")
    (tmp_path / "project/pyproject.toml").write_text("", encoding="utf-8")
    inside = extract_file(path)
    assert (inside.kernels[0].opaque, inside.source.path) == (1, "csrc/ops/k.cu")


def test_headers_lie_in_a_folder_beside_by_the_name_of_their_library(tmp_path: Path) -> None:
    """What everybody brings along is not looked for there, nor what has no folder of its own."""
    header = "__device__ float twice(float x) { return x * 2.f; }\n"
    for name in ("mine/twice.h", "cute/twice.h", "twice.h"):
        path = tmp_path / "jit/include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header, encoding="utf-8")
    (tmp_path / "other/csrc").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    kernel = "__global__ void k(float* x) { x[0] = twice(x[0]); }\n"
    path = tmp_path / "other/csrc/k.cu"
    for name, opaque in (("mine/twice.h", 0), ("cute/twice.h", 1), ("twice.h", 1)):
        path.write_text(f"#include <{name}>\n{kernel}", encoding="utf-8")
        assert extract_file(path).kernels[0].opaque == opaque


def test_headers_lie_in_the_only_folder_beside_that_has_them(tmp_path: Path) -> None:
    """Macros and functions of these that say how much is launched are told with it."""
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    files = {
        "csrc/common/helper.hpp": "#define THREADS 256\n"
        "inline int blocks_for(int n) {\n  return min((n + THREADS - 1) / THREADS, 64);\n}\n",
        "csrc/host/k.cu": '#include "helper.hpp"\n'
        "__global__ void k(float* x, int n) {\n"
        "  int at = blockIdx.x * blockDim.x + threadIdx.x;\n  if (at < n) x[at] = 0.f;\n}\n"
        "void run(float* x, int n) {\n  k<<<blocks_for(n), THREADS>>>(x, n);\n}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    path = tmp_path / "csrc/host/k.cu"
    told = {d.axis: d for d in extract_file(path).kernels[0].decisions}
    header = "csrc/common/helper.hpp"
    assert told["num_warps"].value == "8"
    assert told["num_warps"].elsewhere == ((header, (1, 1)),)
    assert told["grid_mapping"].elsewhere == ((header, (2, 4)),)
    (tmp_path / "csrc/other").mkdir()
    (tmp_path / "csrc/other/helper.hpp").write_text("#define THREADS 64\n", encoding="utf-8")
    path.write_text(files["csrc/host/k.cu"] + "// two of them\n", encoding="utf-8")
    look_anew()
    told = {d.axis: d for d in extract_file(path).kernels[0].decisions}
    assert told["num_warps"].value == "THREADS threads"


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.cu"
    path.write_text("// " + "x" * 5_000_001, encoding="utf-8")
    result = tilelore("extract", path)
    assert result.exit_code == 2
    assert "at most" in result.output


def test_a_kernel_read_from_cuda_is_not_written(folder: Path) -> None:
    program = kernel(folder, "copy").kernel
    assert program_digest(program)
    with pytest.raises(CannotEmit, match="cuda"):
        emit_program(program, "triton")


def test_what_the_host_checks_of_each_array_is_checked_of_all(tmp_path: Path) -> None:
    text = (
        "__global__ void k(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }\n"
        "void host(Tensor a, Tensor b) {\n"
        "  TORCH_CHECK(a.is_contiguous());\n  TORCH_CHECK(b.stride(-1) == 1);\n"
        "  k<<<1, 32>>>(a.data_ptr<float>(), b.data_ptr<float>());\n}\n"
    )
    both = "x.stride[-1] == 1 and y.stride[-1] == 1"
    for line, checked in (("", True), ("  TORCH_CHECK(b.stride(-1) == 1);\n", False)):
        path = tmp_path / "k.cu"
        path.write_text(text.replace(line, ""), encoding="utf-8")
        (found,) = extract_file(path).kernels
        assert [c.checked_by_host for c in found.constraints if c.expression == both] == [checked]


def test_a_parameter_may_be_called_like_a_word_of_constraints(tmp_path: Path) -> None:
    text = (
        "__global__ void k(const float* in, float* out) "
        "{ out[threadIdx.x] = 2.0f * in[threadIdx.x]; }\n"
    )
    (tmp_path / "k.cu").write_text(text)
    (kernel,) = extract_file(tmp_path / "k.cu").kernels
    told = [c.expression for c in kernel.constraints]
    assert "in.stride[-1] == 1 and out.stride[-1] == 1" in told
    for text in told:
        parse(text)
