"""Source corpora from the package index: a pinned wheel, digest checked, unpacked, never imported.

Only wheels: making metadata of a source distribution would run its code. `pip` chooses the index,
so the settings of the machine (mirror, proxy, offline folder) hold here too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from platformdirs import user_cache_path

from kb.errors import InputError, UnknownName

MAX_UNPACKED_BYTES = 512 * 1024 * 1024
MAX_FILES = 50_000
PIP_SECONDS = 300

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RECORD = ".tilelore-corpus.json"

Download = Callable[[str, Path], None]
"""Puts the wheel of a requirement `name==version` into a folder. Raises InputError."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """An unpacked wheel: `files` are relative to `folder`; `licence` is SPDX where known."""

    folder: Path
    package: str
    version: str
    licence: str
    files: tuple[PurePosixPath, ...]


def cache_folder() -> Path:
    """TILELORE_CACHE, or the platform's cache folder for tilelore."""
    named = os.environ.get("TILELORE_CACHE", "")
    return Path(named) if named else user_cache_path("tilelore")


def pinned() -> dict[str, str]:
    """Every pinned corpus as `name==version`, by package name."""
    return {name: f"{name}=={row['version']}" for name, row in _table()["wheel"].items()}


def fetch(requirement: str, *, sha256: str = "", download: Download | None = None) -> Corpus:
    """The unpacked wheel of `name==version`, from the cache or else from the package index.

    `sha256` is needed for a wheel that api/corpora.toml does not pin. A failed download, a wrong
    digest or a wheel that writes outside its folder leaves nothing behind.
    Raises InputError (not pinned, no network, wrong digest, hostile archive).
    """
    package, version = _parsed(requirement)
    digest = _digest(package, version, sha256)
    home = cache_folder() / "corpora"
    folder = home / f"{package}-{version}-{digest[:16]}"
    if not (folder / _RECORD).is_file():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=".incoming-") as incoming:
            _fill(Path(incoming), f"{package}=={version}", digest, download or pip_download)
            _publish(Path(incoming) / "files", folder)
    record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    files = tuple(PurePosixPath(name) for name in record["files"])
    return Corpus(folder, package, version, record["licence"], files)


def pip_download(requirement: str, folder: Path) -> None:
    """Let the pip of the running interpreter download one wheel without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    command += ["--dest", str(folder), requirement]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise _no_download(requirement, f"no answer in {PIP_SECONDS} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        said = errors[-1].removeprefix("ERROR: ") if errors else done.stderr.strip()[-200:]
        raise _no_download(requirement, said)


def _no_download(requirement: str, why: str) -> InputError:
    return InputError(
        f"pip could not download the wheel: {why.rstrip('.')}.",
        where=requirement,
        hint="Check the network and pip's index settings; a copy in the cache needs neither.",
    )


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "corpora.toml").read_text(encoding="utf-8"))


def _parsed(requirement: str) -> tuple[str, str]:
    match = _REQUIREMENT.fullmatch(requirement.strip())
    if match is None:
        hint = "Name one exact version, such as `tilegym==1.5.1`."
        raise InputError("This is not a pinned requirement.", where=requirement, hint=hint)
    return re.sub(r"[-_.]+", "-", match["name"]).lower(), match["version"]


def _digest(package: str, version: str, given: str) -> str:
    row = _table()["wheel"].get(package)
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
        hint = f"Give its sha256 digest, or take a pinned corpus: {known_list}."
        raise UnknownName("This corpus is not pinned.", where=where, hint=hint)
    return given or known


def _fill(incoming: Path, requirement: str, digest: str, download: Download) -> None:
    """Download, check and unpack into `incoming/files`, with the record of what is there."""
    arrived = incoming / "wheel"
    arrived.mkdir()
    download(requirement, arrived)
    wheels = sorted(arrived.glob("*.whl"))
    if len(wheels) != 1:
        names = ", ".join(sorted(path.name for path in arrived.iterdir())) or "nothing"
        hint = "Only a version with a wheel for this platform can be read."
        raise InputError(f"The download gave {names}.", where=requirement, hint=hint)
    found = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if found != digest:
        raise InputError(
            f"{wheels[0].name} has the digest {found}, and {digest} is wanted.",
            where=requirement,
            hint="Nothing was kept. Ask whoever runs your package index why the file differs.",
        )
    folder = incoming / "files"
    unpacked = _unpack(wheels[0], folder, requirement)
    record = {"files": unpacked, "licence": _licence(folder), "sha256": digest}
    (folder / _RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")


def _unpack(wheel: Path, folder: Path, requirement: str) -> list[str]:
    """Unpack regular files only, each inside the folder. The names, sorted."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            _check_members(members, requirement)
            for member in members:
                target = folder.joinpath(*PurePosixPath(member.filename).parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
    except (zipfile.BadZipFile, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        hint = "Download it again, or report the wheel."
        raise InputError(f"The wheel is broken: {error}.", where=requirement, hint=hint) from None
    return sorted(member.filename for member in members)


def _check_members(members: list[zipfile.ZipInfo], requirement: str) -> None:
    total = sum(member.file_size for member in members)
    if len(members) > MAX_FILES or total > MAX_UNPACKED_BYTES:
        message = f"The wheel unpacks to {len(members)} files and {total} bytes."
        hint = f"The limits are {MAX_FILES} files and {MAX_UNPACKED_BYTES} bytes."
        raise InputError(message, where=requirement, hint=hint)
    for member in members:
        name, mode = member.filename, member.external_attr >> 16
        path = PurePosixPath(name)
        outside = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name
        if outside or not path.parts or (stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
            message = f"The wheel holds `{name}`, which is not a plain file inside its folder."
            raise InputError(message, where=requirement, hint="Nothing was kept. Report the wheel.")


def _publish(files: Path, folder: Path) -> None:
    """Move the complete folder into place; another process may have been quicker."""
    try:
        files.rename(folder)
    except OSError:
        if not (folder / _RECORD).is_file():
            raise


def _licence(folder: Path) -> str:
    """What the wheel's METADATA calls its licence, as SPDX where the table knows it."""
    for path in sorted(folder.glob("*.dist-info/METADATA")):
        headers = HeaderParser().parsestr(path.read_text(encoding="utf-8", errors="replace"))
        named = headers.get("License-Expression") or headers.get("License") or ""
        classifiers = [str(one) for one in headers.get_all("Classifier", [])]
        named = named or next((c.split(" :: ")[-1] for c in classifiers if "License ::" in c), "")
        first = str(named).strip().split("\n", 1)[0]
        return str(_table()["spdx"].get(first, first))
    return ""
