"""What a person names on the command line as files to read: a file, a folder, a pinned corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path

from api.corpora import DEFAULT_SET, default_set
from api.source_files import source_tree
from kb.errors import InputError

MAX_DISTRIBUTIONS = 2_000
MAX_LEVELS = 12
_MARKS = (".git", "pyproject.toml", "setup.py", "PKG-INFO")
"""What lies where a project begins."""

HEAD_BYTES = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file to read: `root` is the import root, never left; `shown` is its name in reports.

    `asked`: a person named this very file, so that a file without kernels is an error.
    """

    path: Path
    root: Path
    shown: str
    package: str | None = None
    licence: str | None = None
    asked: bool = False

    def head(self) -> bytes:
        """The first bytes, none when it cannot be read."""
        try:
            with self.path.open("rb") as handle:
                return handle.read(HEAD_BYTES)
        except OSError:
            return b""


def source_files(names: Sequence[str]) -> tuple[SourceFile, ...]:
    """Every file that the names stand for, in order, none twice; `default` is the default set.

    Raises InputError when a name is no path and no pinned corpus.
    """
    found: dict[Path, SourceFile] = {}
    for name in _spelled_out(names):
        for file in _files(name):
            found.setdefault(file.path, file)
    return tuple(found.values())


def _spelled_out(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name == DEFAULT_SET and not Path(name).exists():
            yield from default_set()
        else:
            yield name


def _files(name: str) -> tuple[SourceFile, ...]:
    if Path(name).is_file():
        return (lone_file(name),)
    tree = source_tree(name)
    return tuple(
        _in_root(file, tree.root, package=tree.package, licence=tree.licence) for file in tree.files
    )


def lone_file(name: str, *, package: str | None = None, licence: str | None = None) -> SourceFile:
    """A file that a person named; in a package folder its path is told from the package's root, in
    CUDA C++ from the project's, whose headers it may include.

    Raises InputError when there is none.
    """
    given = Path(name)
    if not given.is_file():
        raise InputError("there is no such file.", where=name, hint="Check the path.")
    path = given.resolve()
    root = path.parent
    while (root / "__init__.py").is_file() and root.parent != root:
        root = root.parent
    if path.suffix != ".py":
        root = _project(root)
    relative = path.relative_to(root).as_posix()
    plain = root == path.parent and not given.is_absolute() and ".." not in given.parts
    shown = given.as_posix() if plain else relative
    told = (package, licence) if package else _distribution(root, relative)
    return SourceFile(
        path=path, root=root, shown=shown, package=told[0], licence=told[1], asked=True
    )


def _project(folder: Path) -> Path:
    """The folder of the project that a file belongs to, where its headers lie; its own folder when
    nothing above it says where a project begins."""
    for above in (folder, *folder.parents)[:MAX_LEVELS]:
        if any((above / mark).exists() for mark in _MARKS) or any(above.glob("*.dist-info")):
            return above
    return folder


def _in_root(
    path: Path, root: Path, *, package: str | None = None, licence: str | None = None
) -> SourceFile:
    shown = path.relative_to(root).as_posix()
    told = (package, licence) if package else _distribution(root, shown)
    return SourceFile(path=path, root=root, shown=shown, package=told[0], licence=told[1])


def _distribution(root: Path, relative: str) -> tuple[str | None, str | None]:
    """`NAME==VERSION` and licence of the installed or unpacked distribution that lists the file."""
    for files, package, licence in _distributions(root):
        if relative in files:
            return package, licence
    return None, None


@lru_cache(maxsize=64)
def _distributions(root: Path) -> tuple[tuple[frozenset[str], str, str | None], ...]:
    folders = sorted(root.glob("*.dist-info"))[:MAX_DISTRIBUTIONS]
    return tuple(row for folder in folders if (row := _record(folder)) is not None)


def _record(folder: Path) -> tuple[frozenset[str], str, str | None] | None:
    try:
        listed = (folder / "RECORD").read_text(encoding="utf-8")
        metadata = (folder / "METADATA").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    headers = HeaderParser().parsestr(metadata)
    name, version = headers.get("Name"), headers.get("Version")
    if not name or not version:
        return None
    files = frozenset(line.split(",", 1)[0] for line in listed.splitlines())
    licence = str(headers.get("License-Expression") or headers.get("License") or "").strip()
    return files, f"{name}=={version}", licence.split("\n", 1)[0] or None
