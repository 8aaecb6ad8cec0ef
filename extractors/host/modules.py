"""Sibling modules as text: found inside the package's own folder, bounded in number and size,
never imported."""

from __future__ import annotations

import ast
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path as FilePath
from typing import NamedTuple, Protocol

from extractors.syntax.builtin_parser import python_module
from extractors.syntax.nodes import each

MAX_MODULE_BYTES = 2_000_000
MAX_SCANNED = 5_000
"""Files whose imports are looked at."""

_IMPORT = re.compile(r"from[ \t]+[\w.]+[ \t]+import[ \t]+(\([^)]*\)|[^\n(]+)")
"""To be looked at only where nothing stands before it on its line: a pattern that begins with a
word is searched for much faster than one that begins with a line."""
_NAME = re.compile(r"\w+")


class ModuleLoader(Protocol):
    """Gives the text of a module by its dotted name, or None when it is not of this package."""

    def source(self, module: str) -> tuple[str, str] | None:
        """`(path, text)` of the module."""

    def name_of(self, path: str) -> str:
        """The dotted name of the module at a path; empty when the path is outside."""

    def tables(self) -> tuple[tuple[str, str], ...]:
        """Configuration tables (YAML) of the package as `(path, text)`."""

    def beside_tables(self) -> tuple[str, ...]:
        """Dotted names of the modules in the folders that hold those tables."""

    def imported(self, name: str) -> bool:
        """Whether some module of the package imports something of that name."""


@dataclass
class FolderLoader:
    """Modules under one root folder (the folder that holds the package); refuses paths that
    leave it."""

    root: FilePath
    max_modules: int = 200
    max_tables: int = 100
    _texts: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    _tables: tuple[tuple[str, str], ...] | None = None

    def source(self, module: str) -> tuple[str, str] | None:
        """`(path, text)`, read once; None for modules outside the root, too large or too many."""
        if module not in self._texts:
            known = sum(1 for value in self._texts.values() if value)
            self._texts[module] = None if known >= self.max_modules else self._read(module)
        return self._texts[module]

    def _read(self, module: str) -> tuple[str, str] | None:
        parts = module.split(".")
        if not module or any(not part.isidentifier() for part in parts):
            return None
        base = os.path.join(*parts)
        for name in (f"{base}.py", os.path.join(base, "__init__.py")):
            text = self._inside(name)
            if text is not None:
                return name, text
        return None

    def _inside(self, name: str) -> str | None:
        """Text of a file by its path below the root."""
        file = os.path.join(self.root, name)
        state = state_of(file)
        small = state is not None and state.size <= MAX_MODULE_BYTES
        return _text(real(self.root), file, state) if state is not None and small else None

    def name_of(self, path: str) -> str:
        """`tilegym/ops/x.py` or the absolute path of it is `tilegym.ops.x`."""
        file = FilePath(path)
        try:
            relative = (
                (file if file.is_absolute() else self.root / file)
                .resolve()
                .relative_to(real(self.root))
            )
        except (ValueError, OSError):
            return ""
        parts = list(relative.with_suffix("").parts)
        return ".".join(parts[:-1] if parts and parts[-1] == "__init__" else parts)

    def tables(self) -> tuple[tuple[str, str], ...]:
        """The YAML files under the root, read once, at most `max_tables`."""
        if self._tables is None:
            files = sorted(self.table_files())[: self.max_tables]
            names = [str(file.relative_to(self.root)) for file in files]
            texts = [(name, self._inside(name)) for name in names]
            self._tables = tuple((name, text) for name, text in texts if text is not None)
        return self._tables

    def table_files(self) -> list[FilePath]:
        """All of them, however many are read."""
        return tables(self.root)

    def beside_tables(self) -> tuple[str, ...]:
        """Dotted names of the modules in the folders that hold those tables."""
        folders = dict.fromkeys(self.root / FilePath(name).parent for name, _ in self.tables())
        files = [file for folder in folders for file in sorted(folder.glob("*.py"))]
        return tuple(name for file in files if (name := self.name_of(str(file))))

    def imported(self, name: str) -> bool:
        """Whether some module of the package imports something of that name."""
        return name in _imported(real(self.root))


@lru_cache(maxsize=64)
def real(root: FilePath) -> FilePath:
    """A root folder without links, looked up once."""
    return root.resolve()


def tables(root: FilePath) -> list[FilePath]:
    """The YAML files below a folder."""
    return files_below(root, ".yaml")


def files_below(root: FilePath, suffix: str) -> list[FilePath]:
    """Everything below a folder whose name ends so; links to folders are not followed."""
    found: list[str] = []
    folders = [str(root)]
    for folder in folders:
        state = state_of(folder, stat.S_ISDIR)
        named, inner = _entries(folder, suffix, state) if state is not None else ((), ())
        found += named
        folders += inner
    return list(map(FilePath, found))


@lru_cache(maxsize=8192)
def _entries(folder: str, suffix: str, state: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What stands in a folder under a name that ends so, and the folders in it."""
    try:
        with os.scandir(folder) as rows:
            entries = list(rows)
    except OSError:
        return (), ()
    named = tuple(entry.path for entry in entries if entry.name.endswith(suffix))
    return named, tuple(one.path for one in entries if one.is_dir(follow_symlinks=False))


class State(NamedTuple):
    """What tells a file from what it was before somebody wrote to it or put another in its place:
    what was read of it once is so while this is the same."""

    size: int
    written: int
    changed: int
    number: int
    device: int


def state_of(file: str, kind: Callable[[int], bool] = stat.S_ISREG) -> State | None:
    """The state of a regular file, or of a folder, which changes with the names in it; None where
    there is none."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    if not kind(found.st_mode):
        return None
    written, changed = found.st_mtime_ns, found.st_ctime_ns
    return State(found.st_size, written, changed, found.st_ino, found.st_dev)


@lru_cache(maxsize=4096)
def within(root: FilePath, file: str, state: State) -> bool:
    """Whether a file in this state lies below a root, and is no link that leads out of it."""
    try:
        return FilePath(file).resolve().is_relative_to(root)
    except OSError:
        return False


@lru_cache(maxsize=256)
def _text(root: FilePath, file: str, state: State) -> str | None:
    try:
        inside = within(root, file, state)
        return FilePath(file).read_text(encoding="utf-8") if inside else None
    except (OSError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=64)
def _imported(root: FilePath) -> frozenset[str]:
    """Names that `from ... import ...` takes in the modules under a folder, bounded."""
    found: set[str] = set()
    for file in sorted(files_below(root, ".py"))[:MAX_SCANNED]:
        try:
            inside = not file.is_symlink() or file.resolve().is_relative_to(root)
            if not inside or file.stat().st_size > MAX_MODULE_BYTES:
                continue
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        found.update(_taken(text))
    return frozenset(found)


def _taken(text: str) -> Iterator[str]:
    """Names in the `from ... import ...` statements of a text."""
    for match in _IMPORT.finditer(text):
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if not before or before.isspace():
            yield from _NAME.findall(match[1])


@dataclass
class TextLoader:
    """Modules given as text, by dotted name: what tests use."""

    texts: dict[str, str]

    def source(self, module: str) -> tuple[str, str] | None:
        """The text given under this name."""
        text = self.texts.get(module)
        return None if text is None else (module.replace(".", "/") + ".py", text)

    def name_of(self, path: str) -> str:
        """`pkg/mod.py` is `pkg.mod`."""
        return path.removesuffix(".py").strip("/").replace("/", ".")

    def tables(self) -> tuple[tuple[str, str], ...]:
        """The texts given under a name that ends in `.yaml`."""
        return tuple((name, text) for name, text in self.texts.items() if name.endswith(".yaml"))

    def beside_tables(self) -> tuple[str, ...]:
        """Names of the texts whose package is that of a table."""
        folders = {str(FilePath(name).parent).replace("/", ".") for name, _ in self.tables()}
        return tuple(name for name in self.texts if name.rpartition(".")[0] in folders)

    def imported(self, name: str) -> bool:
        """Whether one of the texts imports something of that name."""
        return any(name in _taken(text) for text in self.texts.values())


@lru_cache(maxsize=128)
def parse_quietly(text: str) -> ast.Module | None:
    """The syntax tree, or None when the text is not Python."""
    try:
        return python_module(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def absolute(module: str, node: ast.ImportFrom) -> str:
    """The dotted name of the module that a statement imports from; a package's own ends in a
    dot."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")[: -node.level]
    return ".".join([*parts, *([node.module] if node.module else [])])


@dataclass(frozen=True, slots=True)
class Home:
    """A module that something is imported from: its file, its dotted name, and what the name is
    called there."""

    path: str
    module: str
    tree: ast.Module
    name: str


def imported_from(
    loader: ModuleLoader | None, tree: ast.Module, module: str, name: str
) -> Iterator[Home]:
    """The modules of the package that a module imports a name from."""
    for node in each(tree, ast.ImportFrom) if loader else ():
        meant = [one.name for one in node.names if (one.asname or one.name) == name]
        base = absolute(module, node)
        text = loader.source(base) if meant and loader else None
        found = parse_quietly(text[1]) if text else None
        if text is not None and found is not None:
            yield Home(text[0], base, found, meant[0])
