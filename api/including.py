"""Which files of a tree include a header: one look at the heads of all of them."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from pathlib import Path

from extractors.host.modules import State, files_below, state_of

SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".inl")
MAX_FILES = 10_000
HEAD_BYTES = 65_536
"""Includes stand at the head of a file."""

MAX_FILE_BYTES = 2_000_000
SECONDS = 60.0
"""So long is what the files of a tree include taken to be as it was; reading many files anew begins
with looking again."""

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)

Included = dict[str, list[tuple[str, str]]]
"""Files below the root with what they include, by the last name of that."""


def includers(root: Path, header: str) -> tuple[tuple[str, str], ...]:
    """Paths below a root, in order, of files that include a header of its, as far as what they
    write tells, and what they write: it ends the path of the header, or leads there from where
    they stand."""
    rows = _included(root).get(header.rpartition("/")[2], ())
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


_known: dict[Path, tuple[float, Included]] = {}


def forget_includes() -> None:
    """Look at all files again when somebody asks."""
    _known.clear()


def _included(root: Path) -> Included:
    now = time.monotonic()
    then, found = _known.get(root, (0.0, None))
    if found is None or now - then > SECONDS:
        found = {}
        start = len(f"{root}/")
        for file in sorted(map(str, files_below(root, SUFFIXES)))[:MAX_FILES]:
            state = state_of(file)
            if state is not None and state.size <= MAX_FILE_BYTES:
                path = file[start:].replace("\\", "/")
                for name in _names(file, state):
                    found.setdefault(name.rpartition("/")[2], []).append((path, name))
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
