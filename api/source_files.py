"""Source files of a path or of a pinned corpus, as module texts with a loader for their siblings.
Nothing is imported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

from api.corpora import fetch, pinned
from api.lookups import Lookups
from extractors.host.modules import FolderLoader, State, real, state_of, within
from extractors.modules import ModuleText
from kb.errors import InputError

MAX_MODULE_BYTES = 2_000_000
MAX_FILES = 20_000
_MARKS = (b"cuda.tile", b"triton")
"""A file that names none of these holds no kernel of a dialect that compiles ahead of time."""

_MARKS_OF = {
    ".py": _MARKS,
    **dict.fromkeys((".cu", ".cuh", ".h", ".hpp"), (b"__global__",)),
}
"""The same, by kind of file: kinds that are read at all."""


@dataclass
class FolderModules:
    """A loader over one import root: the folder that holds the top package. Never leaves it."""

    root: Path
    lookups: Lookups | None = None
    _texts: dict[str, ModuleText | None] = field(default_factory=dict)

    def load(self, dotted: str) -> ModuleText | None:
        """Text of a module, None when it is not under the root."""
        if dotted not in self._texts:
            self._texts[dotted] = self._read(dotted)
        return self._texts[dotted]

    def _read(self, dotted: str) -> ModuleText | None:
        parts = dotted.split(".")
        if not all(part.isidentifier() for part in parts):
            return None
        base = "/".join(parts)
        for name in (f"{base}.py", f"{base}/__init__.py"):
            file = os.path.join(self.root, name)
            state = state_of(file)
            if self.lookups is not None:
                self.lookups.look_below(name)
            if state is not None and within(real(self.root), file, state):
                return _module(self.root, file, state)
        return None


@dataclass
class SiblingTables(FolderLoader):
    """Sibling modules and tables of a package; a file that stands alone has no tables."""

    lookups: Lookups | None = None

    def tables(self) -> tuple[tuple[str, str], ...]:
        """Configuration tables below the package, none when the root holds no package."""
        if self._tables is None:
            packaged = any((child / "__init__.py").is_file() for child in self.root.iterdir())
            if not packaged:
                self._tables = ()
        return super().tables()

    def table_files(self) -> list[Path]:
        """All YAML files under the root, noted."""
        files = super().table_files()
        if self.lookups is not None:
            self.lookups.note_tables(files)
        return files

    def takers(self, module: str, name: str) -> tuple[str, ...]:
        """Modules that may take a name from a module, noted."""
        found = super().takers(module, name)
        if self.lookups is not None:
            self.lookups.note_takers(module, name, found)
        return found

    def _inside(self, name: str) -> str | None:
        text = super()._inside(name)
        if self.lookups is not None:
            self.lookups.look_below(Path(name).as_posix())
        return text


@dataclass(frozen=True, slots=True)
class SourceTree:
    """Files to read under one import root; `name` stands for them in reports.

    `package` is NAME==VERSION and `licence` that of a corpus; None for a path.
    """

    name: str
    root: Path
    files: tuple[Path, ...]
    package: str | None = None
    licence: str | None = None

    @property
    def digest(self) -> str:
        """sha256 over names and contents of the files."""
        state = hashlib.sha256()
        for file in self.files:
            state.update(str(file.relative_to(self.root)).encode())
            state.update(hashlib.sha256(file.read_bytes()).digest())
        return state.hexdigest()


@lru_cache(maxsize=256)
def _module(root: Path, file: str, state: State) -> ModuleText | None:
    """The module that a file in this state is."""
    return module_text(root, Path(file))


def module_text(root: Path, path: Path) -> ModuleText | None:
    """One file as a module of its root; None when it is too large, unreadable or not UTF-8."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-8") if len(data) <= MAX_MODULE_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None
    if text is None:
        return None
    relative = path.relative_to(root)
    parts = relative.with_suffix("").parts
    package = path.name == "__init__.py"
    return ModuleText(".".join(parts[:-1] if package else parts), str(relative), text, package)


def source_tree(source: str, skip: Iterable[str] = ()) -> SourceTree:
    """The tree of a file, a folder, or a pinned corpus such as `tilegym` or `tilegym==1.5.1`;
    `skip` are path patterns to leave out.

    Raises InputError when there is no such path or corpus.
    """
    path, wanted = Path(source), pinned().get(source, source)
    package = licence = None
    if path.exists():
        name, start = path.resolve().stem, path.resolve()
    elif "==" in wanted:
        corpus = fetch(wanted)
        name, start = corpus.package, corpus.folder.resolve()
        package, licence = f"{corpus.package}=={corpus.version}", corpus.licence or None
        skip = (*skip, *corpus.skip)
    else:
        raise InputError(
            "there is no such file or folder.",
            where=source,
            hint=f"Give a path, or a pinned corpus: {', '.join(pinned().values())}.",
        )
    root = start.parent if start.is_file() else start
    while (root / "__init__.py").is_file():
        root = root.parent
    found = [start] if start.is_file() else _of_kind(start)
    if skip:
        shown = {file: file.relative_to(root).as_posix() for file in found}
        found = [file for file in found if not any(fnmatch(shown[file], p) for p in skip)]
    return SourceTree(name, root, tuple(_with_kernels(found, root)), package, licence)


def _of_kind(start: Path) -> list[Path]:
    """Files below a folder whose kind is read; links to folders are not followed."""
    return sorted(
        Path(folder, name)
        for folder, _, names in os.walk(start)
        for name in names
        if os.path.splitext(name)[1] in _MARKS_OF
    )


def _with_kernels(files: list[Path], root: Path) -> Iterator[Path]:
    """Regular files inside the root that name a dialect, at most MAX_FILES of them."""
    count = 0
    for file in files:
        inside = not file.is_symlink() or file.resolve().is_relative_to(root)
        if not inside or not file.is_file() or count >= MAX_FILES:
            continue
        if file.stat().st_size > MAX_MODULE_BYTES:
            continue
        data = file.read_bytes()
        if any(mark in data for mark in _MARKS_OF.get(file.suffix, _MARKS)):
            count += 1
            yield file
