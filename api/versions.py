"""What a person may compare: kernels by name or file, versions of a package, revisions of a
repository.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.corpora import WITH_DIGEST, cache_folder, fetch, parsed, pinned
from api.diff import diff_document
from api.downloads import pip_download
from api.extract import Progress, extract_many
from api.references import kernels_named
from api.revisions import Repository
from api.snapshots import Snapshot
from api.source_files import source_tree
from api.sources import SourceFile
from kb.errors import InputError, UnknownName
from kb.knowledge import KernelKnowledge

TRUSTED = "trusted.json"
"""Digests that a person took from the index, in the cache folder."""


@dataclass(frozen=True, slots=True)
class Package:
    """An unpacked version: its files that may hold kernels, by their path in the package."""

    label: str
    sha256: str
    files: dict[str, SourceFile]


@dataclass(frozen=True, slots=True)
class Asked:
    """A package by requirement, with the digest and the kernel that were named, if any."""

    requirement: str
    sha256: str = ""
    kernel: str = ""


def compared(
    left: str,
    right: str,
    kb: str | None,
    *,
    trust_index: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The differences between two names: each a kernel, `FILE`, `FILE::KERNEL` or
    `NAME==VERSION[@sha256:DIGEST][::KERNEL]`.

    Raises UnknownName and InputError, also where only one side is a package.
    """  # fmt: skip
    ours, theirs = package_asked(left), package_asked(right)
    if ours is not None and theirs is not None and not ours.kernel and not theirs.kernel:
        one, two = (package(asked, trust_index=trust_index) for asked in (ours, theirs))
        return _packages(one, two, progress)
    sides = [
        _of_package(asked, trust_index=trust_index, progress=progress)
        if asked is not None
        else tuple(k for _, k in kernels_named(name.replace("::", ":"), kb))
        for name, asked in ((left, ours), (right, theirs))
    ]
    return diff_document(sides[0], sides[1], (left, right), asked=True)


# -- packages


def package_asked(name: str) -> Asked | None:
    """The package that a name asks for, None when it is no requirement."""
    head, _, kernel = name.partition("::")
    if "==" not in head or Path(head).exists():
        return None
    requirement, digest = parsed(head)
    return Asked(requirement, digest, kernel)


def package(asked: Asked, *, trust_index: bool = False) -> Package:
    """The unpacked version: pinned, by the digest that was given, by one that was trusted before,
    or, with `trust_index`, by whatever the index has, whose digest is then recorded.

    Raises UnknownName when no digest is known.
    """
    digest = asked.sha256 or _known(asked.requirement)
    if digest is None and trust_index:
        corpus, digest = _trusted(asked.requirement)
    elif digest is None:
        hint = f"Write {WITH_DIGEST}, or add --trust-index to take what it has."
        raise UnknownName("no digest of this version is known.", where=asked.requirement, hint=hint)
    else:
        corpus = fetch(asked.requirement, sha256=digest)
    label = f"{corpus.package}=={corpus.version}"
    tree = source_tree(str(corpus.folder))
    root = corpus.folder.resolve()
    files = {
        path.relative_to(root).as_posix(): SourceFile(
            path=path, root=tree.root, shown=path.relative_to(root).as_posix(), package=label,
            licence=corpus.licence or None,
        )
        for path in tree.files
    }  # fmt: skip
    return Package(label, digest, files)


def _known(requirement: str) -> str | None:
    """The digest of a pin (empty: the table of corpora has it) or one recorded before."""
    if requirement in pinned().values():
        return ""
    found = _records().get(requirement)
    return str(found) if found else None


def _records() -> dict[str, Any]:
    path = cache_folder() / TRUSTED
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _trusted(requirement: str) -> tuple[Any, str]:
    """The wheel that the index has, fetched by the digest that it turns out to have."""
    with tempfile.TemporaryDirectory(prefix="tilelore-wheel-") as name:
        folder = Path(name)
        pip_download(requirement, folder)
        wheels = sorted(folder.glob("*.whl"))
        if len(wheels) != 1:
            hint = "Only a version with a wheel for this platform can be read."
            raise InputError(f"the index gave {len(wheels)} wheels.", where=requirement, hint=hint)
        digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest()

        def copied(_: str, to: Path) -> None:
            shutil.copy(wheels[0], to / wheels[0].name)

        corpus = fetch(requirement, sha256=digest, download=copied)
    path = cache_folder() / TRUSTED
    path.write_text(json.dumps({**_records(), requirement: digest}, indent=1), encoding="utf-8")
    return corpus, digest


def _of_package(
    asked: Asked, *, trust_index: bool, progress: Progress | None
) -> tuple[KernelKnowledge, ...]:
    found = package(asked, trust_index=trust_index)
    kernels = _read(list(found.files.values()), progress)
    if not asked.kernel:
        return kernels
    chosen = tuple(kernel for kernel in kernels if kernel.kernel.name == asked.kernel)
    if not chosen:
        raise UnknownName(f"it has no kernel `{asked.kernel}`.", where=found.label)
    return chosen


def _packages(left: Package, right: Package, progress: Progress | None) -> dict[str, Any]:
    """Two versions; a file with the same bytes on both sides is read once for both."""
    same = {
        path
        for path, file in left.files.items()
        if path in right.files and file.path.read_bytes() == right.files[path].path.read_bytes()
    }
    shared = _read([right.files[path] for path in sorted(same)], progress)
    ours, theirs = (
        _read([file for path, file in side.files.items() if path not in same], progress)
        for side in (left, right)
    )
    document = diff_document((*shared, *ours), (*shared, *theirs), (left.label, right.label))
    return {**document, "unchanged_files": len(same),
            "digests": {left.label: left.sha256, right.label: right.sha256}}  # fmt: skip


def _read(files: Sequence[SourceFile], progress: Progress | None) -> tuple[KernelKnowledge, ...]:
    sources = extract_many(files, progress=progress)
    return tuple(kernel for source in sources for kernel in source.kernels)


# -- revisions


def revisions_compared(
    folder: Path, left: str, right: str, paths: Sequence[str] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The differences between two revisions of a repository, below paths or everywhere.

    Files whose bytes are the same in both are not read and only counted.
    Raises InputError for what is no repository, revision or path.
    """
    with Repository(folder) as repository:
        old, new = repository.resolve(left), repository.resolve(right)
        with Snapshot(repository, paths) as snapshot:
            before = _digests(snapshot, old)
            after = _digests(snapshot, new)
            same = {path for path, digest in before.items() if after.get(path) == digest}
            theirs = snapshot.kernels([path for path in after if path not in same], progress)
            snapshot.move_to(old)
            ours = snapshot.kernels([path for path in before if path not in same], progress)
    labels = f"{left} ({old[:12]})", f"{right} ({new[:12]})"
    return diff_document(ours, theirs, labels, unchanged_files=len(same))


def _digests(snapshot: Snapshot, commit: str) -> dict[str, str]:
    snapshot.move_to(commit)
    return {path: snapshot.files[path].digest for path in snapshot.with_kernels()}
