"""What a reading looked at beside its own file; a later run sees whether it still holds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from api.including import declarers, ending, includers
from extractors.host.modules import FolderLoader, State, real, state_of, tables, within

TABLES = "*.yaml"
"""Stands for the list of configuration tables below the root."""

TAKERS = "*import "
"""Before the dotted name of a module, and a name in it: stands for the list of those that may take
it."""

INCLUDERS = "*include "
"""Before the path of a header: stands for the list of the files that may include it."""

DECLARERS = "*declare "
"""Before names of kernels and the path of a file: stands for the list of the files beside it that
declare these."""

ENDING = "*ending "
"""Before what a file includes: stands for the list of the paths that end in it."""

ABSENT = ""


@dataclass
class Lookups:
    """Digests of the files that were looked at, by path under the root; ABSENT: not there."""

    root: Path
    found: dict[str, str] = field(default_factory=dict)

    def look(self, path: Path) -> None:
        """A file was looked for, and read if it is there; nothing outside the root."""
        if path.is_relative_to(self.root):
            self.look_below(path.relative_to(self.root).as_posix())

    def look_below(self, name: str) -> None:
        """The same by the path under the root."""
        if name in self.found:
            return
        file = os.path.join(self.root, name)
        state = state_of(file)
        if state is None:
            self.found[name] = ABSENT
        elif within(real(self.root), file, state):
            self.found[name] = _digest_of(file, state)

    def note_tables(self, files: Iterable[Path]) -> None:
        """These are the tables below the root."""
        self.found[TABLES] = _listing(self.root, files)

    def note_includers(self, header: str, rows: Iterable[tuple[str, str]]) -> None:
        """These files may include a header, by what they write."""
        self.found[f"{INCLUDERS}{header}"] = _digest_of_rows(rows)

    def note_ending(self, name: str, rows: Iterable[str]) -> None:
        """These paths end in what a file includes."""
        self.found[f"{ENDING}{name}"] = digest_of("\n".join(rows).encode())

    def note_declarers(self, path: str, names: Iterable[str], rows: Iterable[str]) -> None:
        """These files declare kernels of another one."""
        self.found[f"{DECLARERS}{','.join(names)} {path}"] = digest_of("\n".join(rows).encode())

    def note_takers(self, module: str, name: str, takers: Iterable[str]) -> None:
        """These modules may take a name from a module."""
        self.found[f"{TAKERS}{module} {name}"] = digest_of("\n".join(takers).encode())


@dataclass
class Present:
    """Digests as they are now, each file read once a run."""

    digests: dict[Path, str] = field(default_factory=dict)
    imports: dict[Path, FolderLoader] = field(default_factory=dict)

    def still(self, root: Path, found: Mapping[str, str]) -> bool:
        """Whether everything that a reading looked at is as it was."""
        return all(self._now(root, name) == digest for name, digest in found.items())

    def _now(self, root: Path, name: str) -> str:
        path = root / name
        if path not in self.digests and name.startswith(TAKERS):
            loader = self.imports.setdefault(root, FolderLoader(root))
            module, _, taken = name.removeprefix(TAKERS).partition(" ")
            self.digests[path] = digest_of("\n".join(loader.takers(module, taken)).encode())
        if path not in self.digests and name.startswith(INCLUDERS):
            rows = includers(real(root), name.removeprefix(INCLUDERS))
            self.digests[path] = _digest_of_rows(rows)
        if path not in self.digests and name.startswith(ENDING):
            rest = ending(real(root), name.removeprefix(ENDING))
            self.digests[path] = digest_of("\n".join(rest).encode())
        if path not in self.digests and name.startswith(DECLARERS):
            names, _, file = name.removeprefix(DECLARERS).partition(" ")
            declaring = declarers(real(root), file, names.split(","))
            self.digests[path] = digest_of("\n".join(declaring).encode())
        if path not in self.digests:
            listed = name == TABLES
            self.digests[path] = _listing(root, tables(root)) if listed else _digest(path)
        return self.digests[path]


def digest_of(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


@lru_cache(maxsize=4096)
def _digest_of(file: str, state: State) -> str:
    """The digest of a file in this state."""
    return _digest(Path(file))


def _digest(path: Path) -> str:
    try:
        return digest_of(path.read_bytes()) if path.is_file() else ABSENT
    except OSError:
        return ABSENT


def _digest_of_rows(rows: Iterable[tuple[str, str]]) -> str:
    return digest_of("\n".join(f"{path} {name}" for path, name in rows).encode())


def _listing(root: Path, files: Iterable[Path]) -> str:
    names = sorted(path.relative_to(root).as_posix() for path in files)
    return digest_of("\n".join(names).encode())
