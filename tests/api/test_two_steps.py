"""Files read in processes, their items worked on in threads."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from api.two_steps import read_and_work


def lines(file: Path) -> tuple[str, ...]:
    """Read in another process."""
    return tuple(file.read_text().splitlines())


def written(folder: Path, *texts: str) -> list[Path]:
    """A file for each text."""
    files = [folder / f"{number}.txt" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return files


def test_every_file_ends_once_with_its_results_in_order(tmp_path: Path) -> None:
    files = written(tmp_path, "a\nb\nc", "", "d")
    found = dict(read_and_work(files, lines, str.upper, 2))
    assert found == {files[0]: ("A", "B", "C"), files[1]: (), files[2]: ("D",)}


def test_the_items_of_one_file_are_shared_out(tmp_path: Path) -> None:
    together = threading.Barrier(2)
    files = written(tmp_path, "a\nb")
    ((_, found),) = read_and_work(files, lines, lambda _: together.wait(timeout=60), 2)
    assert sorted(found) == [0, 1]


@pytest.mark.parametrize("text", ["a", "a\nb\nc\nd"])
def test_what_fails_is_raised(tmp_path: Path, text: str) -> None:
    with pytest.raises(ZeroDivisionError):
        list(read_and_work(written(tmp_path, text), lines, lambda _: 1 // 0, 1))
    with pytest.raises(FileNotFoundError):
        list(read_and_work([tmp_path / "gone"], lines, str.upper, 1))
