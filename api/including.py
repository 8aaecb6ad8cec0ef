"""Which files of a tree include another one: one look at the heads of all of them. And which files
of its folder declare what it defines."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from extractors.cuda.beside import declares
from extractors.host.modules import State, files_below, forget_imports, state_of

SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".inl")
MAX_FILES = 10_000
HEAD_BYTES = 65_536
"""Includes stand at the head of a file."""

MAX_FILE_BYTES = 2_000_000

MAX_BESIDE = 64
"""Files of one folder that are asked what they declare."""

SECONDS = 60.0
"""So long is what the files of a tree include taken to be as it was, within one reading."""

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)

Included = dict[str, list[tuple[str, str]]]
"""Files below the root with what they include, by the last name of that."""


def includers(root: Path, header: str) -> tuple[tuple[str, str], ...]:
    """Paths below a root, in order, of files that include a header of its, as far as what they
    write tells, and what they write: it ends the path of the header, or leads there from where
    they stand."""
    rows = _tree(root).included.get(header.rpartition("/")[2], ())
    return tuple(row for row in rows if row[0] != header and _meant(*row, header))


def _meant(path: str, name: str, header: str) -> bool:
    parts = [one for one in name.split("/") if one not in ("", ".")]
    up = sum(1 for one in parts if one == "..")
    rest = "/".join(parts[up:])
    if up:
        folder = path.split("/")[:-1]
        known = len(folder) >= up
        return known and "/".join([*folder[: len(folder) - up], rest]) == header
    return header == rest or header.endswith(f"/{rest}")


def declarers(root: Path, path: str, names: Sequence[str]) -> tuple[str, ...]:
    """Files beside one of a tree, those whose names are most like its own first, that declare a
    kernel of one of the names."""
    folder, _, own = path.rpartition("/")
    try:
        files = [one.name for one in os.scandir(root / folder) if one.name.endswith(SUFFIXES)]
    except OSError:
        return ()
    near = sorted(files, key=lambda one: (-_alike(one, own), one))
    found = []
    for other in near[: MAX_BESIDE + 1]:
        state = state_of(file := f"{root}/{folder}/{other}")
        if other != own and state is not None and state.size <= MAX_FILE_BYTES:
            if any(_declares(file, state, name) for name in names):
                found.append(f"{folder}/{other}" if folder else other)
    return tuple(found)


def _alike(one: str, other: str) -> int:
    """How many letters two names begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


@lru_cache(maxsize=32_768)
def _declares(file: str, state: State, name: str) -> bool:
    """Whether a file in this state declares a kernel."""
    try:
        with open(file, encoding="utf-8", errors="replace") as handle:
            return declares(handle.read(), name)
    except OSError:
        return False


def ending(root: Path, name: str) -> tuple[str, ...]:
    """Paths below a root, in order, that end in what a file includes."""
    rows = _tree(root).files.get(name.rpartition("/")[2], ())
    return tuple(path for path in rows if path == name or path.endswith(f"/{name}"))


@dataclass(frozen=True, slots=True)
class _Tree:
    """Files below a root, by their last names, and what they include."""

    files: dict[str, list[str]] = field(default_factory=dict)
    included: Included = field(default_factory=dict)


_known: dict[Path, tuple[float, _Tree]] = {}


def look_anew() -> None:
    """Look at all files again when somebody asks what they include or import: where a reading
    begins."""
    _known.clear()
    forget_imports()


def _tree(root: Path) -> _Tree:
    now = time.monotonic()
    then, found = _known.get(root, (0.0, None))
    if found is None or now - then > SECONDS:
        found = _Tree()
        start = len(f"{root}/")
        for file in sorted(map(str, files_below(root, SUFFIXES)))[:MAX_FILES]:
            state = state_of(file)
            if state is not None and state.size <= MAX_FILE_BYTES:
                path = file[start:].replace("\\", "/")
                found.files.setdefault(path.rpartition("/")[2], []).append(path)
                for name in _names(file, state):
                    found.included.setdefault(name.rpartition("/")[2], []).append((path, name))
        _known[root] = time.monotonic(), found
    return found


@lru_cache(maxsize=32_768)
def _names(file: str, state: State) -> tuple[str, ...]:
    """What a file in this state includes, each once."""
    try:
        with open(file, "rb") as handle:
            head = handle.read(HEAD_BYTES)
    except OSError:
        return ()
    found = (match.decode("utf-8", "replace") for match in _INCLUDE.findall(head))
    return tuple(dict.fromkeys(found))
