"""Sibling modules as text: found inside the package's own folder, bounded in number and size,
never imported."""

from __future__ import annotations

import ast
import os
import re
import stat
import time
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

SECONDS = 60.0
"""So long is what the files of a folder import taken to be as it was, within one reading."""

_FROM = re.compile(r"from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n(]+)")
_IMPORT = re.compile(r"import[ \t]+(\w[\w., \t]*\.[\w., \t]*)")
"""Both to be looked at only where nothing stands before them on their line: a pattern that begins
with a word is searched for much faster than one that begins with a line."""
_NAME = re.compile(r"\w+")
_DOTTED = re.compile(r"\w+(?:\.\w+)+")


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

    def takers(self, module: str, name: str) -> tuple[str, ...]:
        """Dotted names of the modules beside a module that import something of that name, or
        something called like the module, or all that it has."""


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
        return name in imports_below(real(self.root))

    def takers(self, module: str, name: str) -> tuple[str, ...]:
        """Those of the top package of the module; in no package, those of its folder."""
        top, inside, _ = module.partition(".")
        folder = real(self.root) / top if inside else real(self.root)
        found = takers(folder, module, name, deep=bool(inside))
        others = (self.name_of(file) for file in found)
        return tuple(one for one in others if one and one != module)


@lru_cache(maxsize=64)
def real(root: FilePath) -> FilePath:
    """A root folder without links, looked up once."""
    return root.resolve()


def tables(root: FilePath) -> list[FilePath]:
    """The YAML files below a folder."""
    return files_below(root, ".yaml")


def files_below(root: FilePath, suffix: str | tuple[str, ...]) -> list[FilePath]:
    """Everything below a folder whose name ends so, or in one of these ways; links to folders are
    not followed."""
    found: list[str] = []
    folders = [str(root)]
    for folder in folders:
        state = state_of(folder, stat.S_ISDIR)
        named, inner = _entries(folder, suffix, state) if state is not None else ((), ())
        found += named
        folders += inner
    return list(map(FilePath, found))


@lru_cache(maxsize=8192)
def _entries(
    folder: str, suffix: str | tuple[str, ...], state: State
) -> tuple[tuple[str, ...], tuple[str, ...]]:
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


def takers(folder: FilePath, module: str, name: str, *, deep: bool) -> tuple[str, ...]:
    """Files of a folder, in order, that may take a name from a module: that import something of
    that name, or something called like the module, or all that it has."""
    known = imports_below(folder, deep=deep)
    last = module.rpartition(".")[2]
    files = {file for key in (name, last, f"{last}.*") for file in known.get(key, ())}
    return tuple(sorted(files))


_known: dict[tuple[FilePath, bool], tuple[float, dict[str, list[str]]]] = {}


def imports_below(folder: FilePath, *, deep: bool = True) -> dict[str, list[str]]:
    """Files of a folder, and `deep` of those below it, by the names that they import, bounded;
    looked at again after a while."""
    now = time.monotonic()
    then, found = _known.get((folder, deep), (0.0, None))
    if found is None or now - then > SECONDS:
        found = imports_now(folder, deep=deep)
        _known[folder, deep] = now, found
    return found


def forget_imports() -> None:
    """Look at all files again when somebody asks."""
    _known.clear()


def imports_now(folder: FilePath, *, deep: bool) -> dict[str, list[str]]:
    """The same as it is now; only files that changed are read again."""
    found: dict[str, list[str]] = {}
    files = files_below(folder, ".py") if deep else _files_in(folder)
    for file in sorted(map(str, files))[:MAX_SCANNED]:
        state = state_of(file)
        if state is not None and state.size <= MAX_MODULE_BYTES:
            for name in _names_taken(folder, file, state):
                found.setdefault(name, []).append(file)
    return found


def _files_in(folder: FilePath) -> list[FilePath]:
    """Modules in a folder itself."""
    state = state_of(str(folder), stat.S_ISDIR)
    named = _entries(str(folder), ".py", state)[0] if state is not None else ()
    return list(map(FilePath, named))


@lru_cache(maxsize=16_384)
def _names_taken(folder: FilePath, file: str, state: State) -> frozenset[str]:
    """Names that a file in this state imports."""
    try:
        path = FilePath(file)
        inside = not path.is_symlink() or path.resolve().is_relative_to(folder)
        return frozenset(_taken(path.read_text(encoding="utf-8"))) if inside else frozenset()
    except (OSError, UnicodeDecodeError):
        return frozenset()


def _taken(text: str) -> Iterator[str]:
    """Names in the import statements of a text; `mod.*` where all that a module `mod` has is taken,
    and `mod` where a module is taken by its dotted name."""
    for match in _FROM.finditer(text):
        if _begins_line(text, match.start()):
            names = _NAME.findall(match[2])
            yield from names or (f"{match[1].rpartition('.')[2]}.*",)
    for match in _IMPORT.finditer(text):
        if _begins_line(text, match.start()):
            yield from (one.rpartition(".")[2] for one in _DOTTED.findall(match[1]))


def _begins_line(text: str, at: int) -> bool:
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return not before or before.isspace()


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

    def takers(self, module: str, name: str) -> tuple[str, ...]:
        """Names of the texts that may take a name from a module."""
        last = module.rpartition(".")[2]
        wanted = {name, last, f"{last}.*"}
        rows = sorted(self.texts.items())
        return tuple(one for one, text in rows if one != module and wanted & {*_taken(text)})


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
