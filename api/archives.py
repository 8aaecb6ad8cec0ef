"""Source files out of a wheel or a source distribution: streamed, bounded, never outside."""

from __future__ import annotations

import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from kb.errors import InputError

MAX_UNPACKED_BYTES = 1024 * 1024 * 1024
MAX_FILES = 50_000

SOURCES = frozenset(
    (".py", ".cu", ".cuh", ".h", ".hpp", ".inc", ".inl", ".jinja", ".yaml", ".yml", ".json")
)
"""Kernels, what they include, and the tables beside them."""

ABOUT = frozenset(("METADATA", "RECORD", "PKG-INFO", "LICENSE", "LICENSE.txt", "COPYING"))
"""What says whose they are."""

_BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError,
    FileExistsError, NotADirectoryError, IsADirectoryError,
)  # fmt: skip


def unpack(archive: Path, folder: Path, requirement: str) -> list[str]:
    """Unpack the source files of an archive into a folder; their names, sorted.

    A source distribution loses the folder that all its files are in. Every name is looked at, and
    one that leads outside or is a link spoils the whole archive. InputError.
    """
    read = _wheel if archive.suffix == ".whl" else _sdist
    count, names, total = 0, set[str](), 0
    try:
        for name, size, plain, source in read(archive):
            count += 1
            _check_name(name, plain, requirement)
            if source is None or not _wanted(PurePosixPath(name)):
                continue
            total += size
            _check_size(count, total, requirement)
            target = folder.joinpath(*PurePosixPath(name).parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            names.add(name)
    except _BROKEN as error:
        hint = "Download it again, or report it."
        raise InputError(f"The archive is broken: {error}.", where=requirement, hint=hint) from None
    return sorted(names)


Member = tuple[str, int, bool, IO[bytes] | None]
"""Name, size in bytes, whether it is a plain file or a folder, and its bytes (None: a folder)."""


def _wheel(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir():
                yield member.filename, 0, kind in (0, stat.S_IFDIR), None
                continue
            with archive.open(member) as source:
                yield member.filename, member.file_size, kind in (0, stat.S_IFREG), source


def _sdist(path: Path) -> Iterator[Member]:
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            top, slash, inner = member.name.partition("/")
            name = inner if slash and top not in ("", "..") else member.name
            source = archive.extractfile(member) if member.isreg() else None
            yield name, member.size, member.isreg() or member.isdir(), source


def _wanted(name: PurePosixPath) -> bool:
    return name.suffix in SOURCES or name.name in ABOUT


def _check_name(name: str, plain: bool, requirement: str) -> None:
    path = PurePosixPath(name)
    outside = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name
    if outside or not path.parts or not plain:
        message = f"The archive holds `{name}`, which is not a plain file inside its folder."
        raise InputError(message, where=requirement, hint="Nothing was kept. Report the archive.")


def _check_size(count: int, total: int, requirement: str) -> None:
    if count > MAX_FILES or total > MAX_UNPACKED_BYTES:
        message = f"The archive unpacks to {count} files and {total} bytes, or more."
        hint = f"The limits are {MAX_FILES} files and {MAX_UNPACKED_BYTES} bytes."
        raise InputError(message, where=requirement, hint=hint)
