"""Broken sources are read or refused with a reason; nothing crashes. A sample: 2,000 files of all
corpora are broken by benchmarks/mutations."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from api.sources import SourceFile
from benchmarks.mutations.mutate import MUTATIONS
from benchmarks.mutations.run import read_broken
from extractors.patterns import cases, cases_rows, cases_rows_threads, cases_threads
from tests.api.sample_kernels import KERNEL, TRITON

ROUNDS = 5
PYTHON = (KERNEL, TRITON, cases.ATTENTION, cases.ATTENTION_POINTER, cases_rows.SOFTMAX_CHUNKS)
THREADS = (cases_threads.PRODUCT_THREADS, cases_rows_threads.COPY_THREADS)


@pytest.mark.parametrize("way", sorted(MUTATIONS))
@pytest.mark.parametrize("suffix", [".py", ".cu"])
def test_a_broken_file_crashes_nothing(tmp_path: Path, way: str, suffix: str) -> None:
    texts = PYTHON if suffix == ".py" else THREADS
    for seed in range(ROUNDS):
        text = texts[seed % len(texts)]
        broken = MUTATIONS[way](text, Random(seed))
        file = SourceFile(path=tmp_path / f"k{suffix}", root=tmp_path, shown=f"k{suffix}")
        reading = read_broken(file, broken, seed)
        assert reading.refused == ""
        assert all(note.message for note in reading.diagnostics)


def test_each_way_breaks_something() -> None:
    for name, way in MUTATIONS.items():
        assert any(way(KERNEL, Random(seed)) != KERNEL for seed in range(3)), name
