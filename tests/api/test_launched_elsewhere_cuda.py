"""Kernels of headers that files which include them launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from api import reading_cache
from api.extract import extract_file
from api.including import includers, look_anew
from api.read_each import read_each
from api.sources import source_files
from kb.graph.decode import decode
from kb.graph.encode import encode
from kb.ir import kernel_ops
from kb.ir_text import to_text
from kb.knowledge import KernelKnowledge
from kb.ops import OpKind

HEADER = """#pragma once
#include <cstdint>

template <typename T>
__global__ void scale(const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * T(2);
}
"""
LAUNCHER = """#include "scale.cuh"

void run(const float* x, float* y, int n, cudaStream_t stream) {
  const int threads = 256;
  const int blocks = (n + threads - 1) / threads;
  scale<float><<<blocks, threads, 0, stream>>>(x, y, n);
}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(reading_cache, "reader_version", lambda: "1")
    folder = tmp_path / "tree"
    (folder / "csrc").mkdir(parents=True)
    (folder / "setup.py").write_text("")
    (folder / "csrc" / "scale.cuh").write_text(HEADER)
    (folder / "csrc" / "run.cu").write_text(LAUNCHER)
    return folder


def scale(package: Path) -> KernelKnowledge:
    (kernel,) = extract_file(package / "csrc" / "scale.cuh").kernels
    return kernel


def test_a_launch_in_a_file_that_includes_the_header_is_read_there(package: Path) -> None:
    kernel = scale(package)
    (launch,) = kernel.launches
    assert (launch.file, launch.lines, launch.host_function) == ("csrc/run.cu", (6, 6), "run")
    assert dict(launch.hints) == {"block_x": 256}
    by_axis = {d.axis: d for d in kernel.decisions}
    assert (by_axis["num_warps"].value, by_axis["num_warps"].file) == ("8", "csrc/run.cu")
    assert (4, 4) in by_axis["num_warps"].lines
    assert by_axis["grid_mapping"].file is None
    assert any(file == "csrc/run.cu" for file, _ in by_axis["grid_mapping"].elsewhere)
    last = len(HEADER.splitlines())
    assert all(line <= last for d in kernel.decisions if d.file is None for _, line in d.lines)
    stored = decode(encode(kernel).quads, to_text(kernel.kernel))
    assert (stored.decisions, stored.launches) == (kernel.decisions, kernel.launches)


def test_a_launch_of_its_own_is_all_that_counts(package: Path) -> None:
    own = LAUNCHER.replace('#include "scale.cuh"', "").replace("256", "64")
    (package / "csrc" / "scale.cuh").write_text(HEADER + own.replace("run(", "own("))
    assert [one.file for one in scale(package).launches] == [None]


def test_files_that_launch_it_are_alternatives_in_order(package: Path) -> None:
    other = LAUNCHER.replace("void run", "void more").replace("256", "512")
    (package / "csrc" / "more.cu").write_text(other)
    assert [(one.file, one.host_function) for one in scale(package).launches] == [
        ("csrc/more.cu", "more"),
        ("csrc/run.cu", "run"),
    ]


def test_through_a_header_between(package: Path) -> None:
    (package / "csrc" / "between.h").write_text('#include "scale.cuh"\n')
    (package / "csrc" / "run.cu").write_text(LAUNCHER.replace("scale.cuh", "between.h"))
    assert [one.file for one in scale(package).launches] == ["csrc/run.cu"]


def test_another_header_of_that_name_lies_closer(package: Path) -> None:
    (package / "csrc" / "near").mkdir()
    (package / "csrc" / "near" / "run.cu").write_text(LAUNCHER)
    (package / "csrc" / "near" / "scale.cuh").write_text(HEADER)
    (package / "csrc" / "run.cu").unlink()
    assert scale(package).launches == ()


@pytest.mark.parametrize(
    "changed",
    [
        LAUNCHER.replace('"scale.cuh"', '"other/scale.cuh"'),
        LAUNCHER.replace("scale<float><<<", "wide<float><<<"),
        LAUNCHER + "\n__global__ void scale(float* y) { y[0] = 1.f; }\n",
        '#include "scale.cuh"\n// scale<float><<<1, 32>>>(x, y, n);\n',
    ],
)
def test_what_is_another_thing_of_its_name_launches_nothing(package: Path, changed: str) -> None:
    (package / "csrc" / "run.cu").write_text(changed)
    assert scale(package).launches == ()


def test_headers_are_found_by_what_is_written(tmp_path: Path) -> None:
    texts = {
        "a/x.cuh": "",
        "a/k.cu": '#include "x.cuh"\n',
        "b/k.cu": "#include <a/x.cuh>\n",
        "b/up.cu": '#include "../a/x.cuh"\n',
        "b/other.cu": '#include "c/x.cuh"\n#include "x.cuh.h"\n',
        "b/below.cu": '#include "../../a/x.cuh"\n',
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    look_anew()
    found = [path for path, _ in includers(tmp_path, "a/x.cuh")]
    assert found == ["a/k.cu", "b/k.cu", "b/up.cu"]


def test_a_change_of_the_launching_file_counts(package: Path) -> None:
    def read_again() -> set[str]:
        files = source_files([str(package)])
        found = dict(read_each(files, jobs=1))
        return {files[index].path.name for index, reading in found.items() if reading.again}

    assert read_again() == {"scale.cuh"}
    assert read_again() == set()
    (package / "csrc" / "run.cu").write_text(LAUNCHER.replace("256", "128"))
    assert read_again() == {"scale.cuh"}
    (package / "csrc" / "notes.cu").write_text('#include "other.cuh"\n')
    assert read_again() == set()
    (package / "csrc" / "more.cu").write_text(LAUNCHER)
    assert read_again() == {"scale.cuh"}
    (package / "csrc" / "more.cu").unlink()
    assert read_again() == {"scale.cuh"}
    assert read_again() == set()


_OWN = HEADER.replace("template <typename T>\n", "").replace("const T*", "const float*").replace(
    "T* y", "float* y"
).replace("T(2)", "2.f").replace("#pragma once\n", "")  # fmt: skip
_DECLARED = "__global__ void scale(const float* x, float* y, int n);\n"
_RUNS = LAUNCHER.replace("scale<float>", "scale")


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(_RUNS.replace("scale.cuh", "scale.cu"), id="includes it"),
        pytest.param(_RUNS.replace('#include "scale.cuh"\n', _DECLARED), id="declares its kernel"),
    ],
)
def test_a_file_of_kernels_that_another_one_launches(package: Path, launcher: str) -> None:
    (package / "csrc" / "scale.cuh").unlink()
    (package / "csrc" / "scale.cu").write_text(_OWN)
    (package / "csrc" / "run.cu").write_text(launcher)
    (kernel,) = extract_file(package / "csrc" / "scale.cu").kernels
    (launch,) = kernel.launches
    assert (launch.file, launch.lines) == ("csrc/run.cu", (6, 6))


def test_what_both_define_under_one_name_is_read_in_its_own_file(package: Path) -> None:
    """A function of the launching file is no part of the kernel, whatever the kernel calls."""
    (package / "csrc" / "scale.cuh").write_text(HEADER.replace("x[i] * T(2)", "twice(x[i])"))
    twice = "float twice(float x) {\n#if __CUDA_ARCH__ >= 800\n  return x;\n#endif\n}\n"
    (package / "csrc" / "run.cu").write_text(LAUNCHER + twice)
    assert [one.file for one in scale(package).launches] == ["csrc/run.cu"]


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(_RUNS.replace('#include "scale.cuh"\n', "\n"), id="neither"),
        pytest.param(_RUNS.replace('#include "scale.cuh"\n', f"// {_DECLARED}"), id="in a comment"),
        pytest.param(
            _RUNS.replace('#include "scale.cuh"\n', _DECLARED.replace(";", " {}")), id="its own"
        ),
    ],
)
def test_another_kernel_of_its_name(package: Path, launcher: str) -> None:
    (package / "csrc" / "scale.cuh").unlink()
    (package / "csrc" / "scale.cu").write_text(_OWN)
    (package / "csrc" / "run.cu").write_text(launcher)
    (kernel,) = extract_file(package / "csrc" / "scale.cu").kernels
    assert not kernel.launches


@pytest.mark.parametrize("name", ["scale.cu", "scale up.cu"])
def test_a_file_that_comes_to_declare_a_kernel_counts(package: Path, name: str) -> None:
    (package / "csrc" / "scale.cuh").unlink()
    (package / "csrc" / "run.cu").unlink()
    (package / "csrc" / name).write_text(_OWN)

    def read_again() -> bool:
        files = source_files([str(package)])
        found = dict(read_each(files, jobs=1))
        again = {files[index].path.name for index, reading in found.items() if reading.again}
        return name in again

    assert [read_again(), read_again()] == [True, False]
    (package / "csrc" / "run.cu").write_text(_RUNS.replace('#include "scale.cuh"\n', _DECLARED))
    assert [read_again(), read_again()] == [True, False]


_ALONE = """template <typename T>
__global__ void scale(const T* x, T* y, int n) {
  int i = WIDTH * blockIdx.x + threadIdx.x;
  if (i < n) y[i] = twice(x[i]);
}
"""
_HELPER = "#pragma once\ntemplate <typename T> __device__ T twice(T x) { return x + x; }\n"


_ABOVE = '#include "twice.h"\nconst int WIDTH = 256;\n'


@pytest.mark.parametrize(
    ("header", "launcher", "known"),
    [
        pytest.param(_ALONE, _ABOVE + LAUNCHER, True, id="above"),
        pytest.param(_ALONE, LAUNCHER + _ABOVE, False, id="below"),
        pytest.param('#include "own.h"\n' + _ALONE, _ABOVE + LAUNCHER, False, id="its own"),
    ],
)
def test_a_header_that_includes_nothing_takes_what_stands_above_it(
    package: Path, header: str, launcher: str, known: bool
) -> None:
    """Helpers, constants and headers of the file that includes it, unless the header includes a
    file of the tree itself."""
    (package / "csrc" / "own.h").write_text("")
    (package / "csrc" / "twice.h").write_text(_HELPER)
    (package / "csrc" / "scale.cuh").write_text(header)
    (package / "csrc" / "run.cu").write_text(launcher)
    opaque = [op for op in kernel_ops(scale(package).kernel) if op.kind == OpKind.OPAQUE]
    assert (not opaque) == known


_PICKED = """#pragma once
template <bool twice>
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = twice ? x[i] * 2.f : x[i];
}
typedef void (*scaling)(const float*, float*, int);
scaling pick(bool twice) {
  if (twice) return scale<true>;
  return scale<false>;
}
"""
_PICKS = """#include "scale.cuh"

void run(const float* x, float* y, int n, bool twice) {
  scaling kernel = pick(twice);
  kernel<<<(n + 255) / 256, 256>>>(x, y, n);
}
"""


@pytest.mark.parametrize(("gives", "files"), [("return ", {"csrc/run.cu"}), ("", set())])
def test_a_file_that_asks_the_header_for_its_kernel_launches_it(
    package: Path, gives: str, files: set[str]
) -> None:
    (package / "csrc" / "scale.cuh").write_text(_PICKED.replace("return ", gives))
    (package / "csrc" / "run.cu").write_text(_PICKS)
    assert {one.file for one in scale(package).launches} == files


def test_a_header_that_comes_to_lie_in_a_folder_beside_counts(package: Path) -> None:
    (package / "csrc" / "scale.cuh").write_text('#include "twice.h"\n' + _ALONE)

    def read_again() -> bool:
        files = source_files([str(package)])
        found = dict(read_each(files, jobs=1))
        again = {files[index].path.name for index, reading in found.items() if reading.again}
        return "scale.cuh" in again

    assert [read_again(), read_again()] == [True, False]
    (package / "csrc" / "inc").mkdir()
    (package / "csrc" / "inc" / "twice.h").write_text(_HELPER)
    assert [read_again(), read_again()] == [True, False]
    (package / "csrc" / "more").mkdir()
    (package / "csrc" / "more" / "twice.h").write_text(_HELPER)
    assert [read_again(), read_again()] == [True, False]
