"""A second run reads only what changed: the file itself, or something that was looked at for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from api import reading_cache
from api.read_each import read_each
from api.reading import Reading
from api.remember import Memory, Remembered
from api.sources import source_files
from kb.errors import StoreError
from tests.api.sample_kernels import KERNEL, TRITON

SHARED = """\
import triton
import triton.language as tl


@triton.jit
def twice(x):
    return x * 2
"""
CALLER = TRITON.replace(
    "import triton\n", "import triton\nfrom pkg.shared import twice\n", 1
).replace("x * 2", "twice(x)")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(reading_cache, "reader_version", lambda: "1")
    folder = tmp_path / "tree" / "pkg"
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", "shared": SHARED, "caller": CALLER, "alone": KERNEL}.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def read(package: Path, *, again: bool = False) -> dict[str, Reading]:
    files = source_files([str(package)])
    found = dict(read_each(files, jobs=1, again=again))
    return {files[index].path.stem: reading for index, reading in found.items()}


def read_again(package: Path) -> set[str]:
    return {name for name, reading in read(package).items() if reading.again}


def test_only_what_changed_is_read_again(package: Path) -> None:
    assert read_again(package) == {"shared", "caller", "alone"}
    assert read_again(package) == set()
    (package / "alone.py").write_text(KERNEL + "\n# changed\n")
    assert read_again(package) == {"alone"}
    (package / "shared.py").write_text(SHARED.replace("x * 2", "x + x"))
    assert read_again(package) == {"shared", "caller"}
    (package / "shared").mkdir()  # a package of that name comes after the module
    assert read_again(package) == set()


HOST = """
from pkg.sizes import TILE
import torch

def run(x):
    out = torch.empty_like(x)
    double[(1,)](x, out, x.numel(), TILE)
    return out
"""


def test_what_the_host_looked_at_counts_too(package: Path) -> None:
    (package / "caller.py").write_text(CALLER + HOST)
    (package / "sizes.py").write_text("TILE = 64\n")
    read(package)
    assert read_again(package) == set()
    (package / "sizes.py").write_text("TILE = 128\n")
    assert read_again(package) == {"caller"}


def test_headers_of_a_file_count_too(package: Path) -> None:
    (package / "k.cu").write_text(
        '#include "width.cuh"\n__global__ void k(float* y) { y[WIDTH] = 1.f; }\n'
    )
    read(package)
    assert read_again(package) == set()
    (package / "width.cuh").write_text("#define WIDTH 4\n")
    assert read_again(package) == {"k"}
    (package / "width.cuh").write_text("#define WIDTH 8\n")
    assert read_again(package) == {"k"}


def test_what_was_not_there_counts_too(package: Path) -> None:
    (package / "shared.py").unlink()
    read(package)
    assert read_again(package) == set()
    (package / "shared.py").write_text(SHARED)
    assert "caller" in read_again(package)


def test_a_kept_reading_is_the_reading(package: Path) -> None:
    first, second = read(package), read(package)
    for name, reading in first.items():
        kept = second[name]
        assert (kept.source, kept.kernels, kept.diagnostics) == (
            reading.source,
            reading.kernels,
            reading.diagnostics,
        )
        assert kept.graphs == reading.graphs


def test_another_reader_or_a_wish_reads_everything(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(package)
    assert all(reading.again for reading in read(package, again=True).values())
    monkeypatch.setattr(reading_cache, "reader_version", lambda: "2")
    assert len(read_again(package)) == 3


def test_a_damaged_reading_is_read_again(package: Path, tmp_path: Path) -> None:
    read(package)
    kept = sorted((tmp_path / "cache" / "readings").glob("??/*.reading"))
    assert len(kept) == 3
    for path in kept:
        path.write_bytes(path.read_bytes()[:-1])
    assert len(read_again(package)) >= 2  # a file without kernels loses nothing
    for path in kept:
        path.write_bytes(b"\xff")
    assert len(read_again(package)) == 3


def test_the_store_follows(package: Path, tmp_path: Path) -> None:
    def remembered() -> Remembered:
        with Memory(str(tmp_path / "kb")) as memory:
            for reading in read(package).values():
                memory.add(reading)
            return memory.done()

    assert remembered() == Remembered(added=2)
    assert remembered() == Remembered(unchanged=2)
    (package / "shared.py").write_text(SHARED.replace("x * 2", "x + x"))
    assert remembered() == Remembered(unchanged=1, replaced=1)


def test_the_version_of_the_reader_is_that_of_its_code() -> None:
    assert len(reading_cache.reader_version()) == 64
    assert reading_cache.reader_version() == reading_cache.reader_version()


def test_a_write_that_fails_beside_the_reading_is_told(package: Path, tmp_path: Path) -> None:
    (reading, *_) = (r for r in read(package).values() if r.graphs)
    with Memory(str(tmp_path / "kb")) as memory:
        memory.add(reading)
        content = reading.graphs[0].content
        beside = tmp_path / "kb" / "kernels" / content[:2] / f"{content}.nq.tmp"
        beside.mkdir(parents=True)  # in the way of the file
        with pytest.raises(StoreError, match="could not be written"):
            memory.done()
