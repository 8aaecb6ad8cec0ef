"""Source corpora from the package index: pinned archives, digest checked, never imported."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Any

from platformdirs import user_cache_path

from api.archives import unpack
from api.downloads import index_download, pip_download
from kb.errors import InputError, UnknownName

DEFAULT_SET = "default"
"""The word that stands for the pinned corpora of the default set."""

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)"
    r"(?:@sha256:(?P<digest>[^@]*))?"
)
WITH_DIGEST = "NAME==VERSION@sha256:DIGEST"
"""How a version is named that api/corpora.toml does not pin."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_RECORD = ".tilelore-corpus.json"

Download = Callable[[str, Path], None]
"""Puts the archive of a requirement `name==version` into a folder. Raises InputError."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """An unpacked archive: `files` are relative to `folder`; `licence` is SPDX where known.

    `skip` are path patterns of files that are there to be looked up, not to be read for kernels.
    """

    folder: Path
    package: str
    version: str
    licence: str
    files: tuple[PurePosixPath, ...]
    skip: tuple[str, ...] = ()


def cache_folder() -> Path:
    """TILELORE_CACHE, or the platform's cache folder for tilelore."""
    named = os.environ.get("TILELORE_CACHE", "")
    return Path(named) if named else user_cache_path("tilelore")


def pinned() -> dict[str, str]:
    """Every pinned corpus as `name==version`, by package name."""
    return {name: f"{name}=={row['version']}" for name, row in _table()["corpus"].items()}


def default_set() -> tuple[str, ...]:
    """The pinned corpora that `default` stands for, as `name==version`."""
    kept = _table()["corpus"]
    return tuple(row for name, row in pinned().items() if kept[name].get("default", True))


def fetch(requirement: str, *, sha256: str = "", download: Download | None = None) -> Corpus:
    """The source files of `name==version`, from the cache or else from the package index.

    The digest, here or as `name==version@sha256:DIGEST`, is needed for an archive that
    api/corpora.toml does not pin. A failed download, a wrong digest or an archive that writes
    outside its folder leaves nothing behind.
    Raises InputError (not pinned, no network, wrong digest, hostile archive).
    """
    named, told = parsed(requirement)
    package, _, version = named.partition("==")
    digest = _digest(package, version, sha256 or told)
    home = cache_folder() / "corpora"
    folder = home / f"{package}-{version}-{digest[:16]}"
    if not (folder / _RECORD).is_file():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=".incoming-") as incoming:
            way = download or _way(package, digest)
            _fill(Path(incoming), f"{package}=={version}", digest, way)
            _publish(Path(incoming) / "files", folder)
    record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    files = tuple(PurePosixPath(name) for name in record["files"])
    skip = tuple(_pinned_row(package, digest).get("skip", ()))
    return Corpus(folder, package, version, record["licence"], files, skip)


def _way(package: str, digest: str) -> Download:
    """How this archive is got: what a person gave a digest for, and a source distribution, by the
    digest alone; a pinned wheel, for any or for one platform, through pip and its settings."""
    row = _pinned_row(package, digest)
    if not row or row.get("kind") == "sdist":
        return partial(index_download, sha256=digest)
    return partial(pip_download, platform=str(row.get("platform", "")))


def _pinned_row(package: str, digest: str) -> dict[str, Any]:
    row = dict(_table()["corpus"].get(package, {}))
    return row if row.get("sha256") == digest else {}


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "corpora.toml").read_text(encoding="utf-8"))


def parsed(requirement: str) -> tuple[str, str]:
    """`name==version`, spelled as the index spells it, and the digest that was named, or "".

    Raises InputError.
    """
    match = _REQUIREMENT.fullmatch(requirement.strip())
    if match is None:
        hint = f"Name one exact version, such as `tilegym==1.5.1`, or {WITH_DIGEST}."
        raise InputError("This is not a pinned requirement.", where=requirement, hint=hint)
    name = re.sub(r"[-_.]+", "-", match["name"]).lower()
    return f"{name}=={match['version']}", match["digest"] or ""


def _digest(package: str, version: str, given: str) -> str:
    row = _table()["corpus"].get(package)
    known = str(row["sha256"]) if row is not None and row["version"] == version else ""
    where = f"{package}=={version}"
    if given and not _DIGEST.fullmatch(given):
        hint = "Give 64 lower-case hexadecimal digits."
        raise InputError(f"`{given}` is not a sha256 digest.", where=where, hint=hint)
    if known and given and known != given:
        message = f"The digest {given} is not the pinned one, {known}."
        raise InputError(message, where=where, hint="Leave the digest out.")
    if not known and not given:
        known_list = ", ".join(pinned().values())
        form = WITH_DIGEST.replace("NAME==VERSION", where)
        hint = f"Write {form}; the index lists it. Pinned corpora: {known_list}."
        raise UnknownName("This corpus is not pinned.", where=where, hint=hint)
    return given or known


def _fill(incoming: Path, requirement: str, digest: str, download: Download) -> None:
    """Download, check and unpack into `incoming/files`, with the record of what is there."""
    arrived = incoming / "archive"
    arrived.mkdir()
    download(requirement, arrived)
    archives = sorted([*arrived.glob("*.whl"), *arrived.glob("*.tar.gz")])
    if len(archives) != 1:
        names = ", ".join(sorted(path.name for path in arrived.iterdir())) or "nothing"
        hint = "One wheel or one .tar.gz can be read."
        raise InputError(f"The download gave {names}.", where=requirement, hint=hint)
    with archives[0].open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != digest:
        raise InputError(
            f"{archives[0].name} has the digest {found}, and {digest} is wanted.",
            where=requirement,
            hint="Nothing was kept. Ask whoever runs your package index why the file differs.",
        )
    folder = incoming / "files"
    folder.mkdir()
    unpacked = unpack(archives[0], folder, requirement)
    row = _pinned_row(requirement.partition("==")[0], digest)
    licence = str(row.get("licence", "")) or _licence(folder)
    record = {"files": unpacked, "licence": licence, "sha256": digest}
    (folder / _RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")


def _publish(files: Path, folder: Path) -> None:
    """Move the complete folder into place; another process may have been quicker."""
    try:
        files.rename(folder)
    except OSError:
        if not (folder / _RECORD).is_file():
            raise


def _licence(folder: Path) -> str:
    """What the archive's metadata call its licence, as SPDX where the table knows it."""
    for path in (*sorted(folder.glob("*.dist-info/METADATA")), *folder.glob("PKG-INFO")):
        headers = HeaderParser().parsestr(path.read_text(encoding="utf-8", errors="replace"))
        named = headers.get("License-Expression") or headers.get("License") or ""
        classifiers = [str(one) for one in headers.get_all("Classifier", [])]
        named = named or next((c.split(" :: ")[-1] for c in classifiers if "License ::" in c), "")
        first = str(named).strip().split("\n", 1)[0]
        return str(_table()["spdx"].get(first, first))
    return ""
