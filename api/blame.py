"""Which revision introduced each decision of a kernel: its history walked from the newest.

A revision hands a decision on to a parent that has it too; what no parent has, it introduced. The
file is followed through renamings that git sees, the kernel through those that leave its program
alone. A file of the same bytes is read once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from api.revisions import Repository
from api.snapshots import Snapshot
from kb.errors import InputError, UnknownName
from kb.evidence import Decision
from kb.ir import alpha_digest
from kb.knowledge import KernelKnowledge, SourceKnowledge

SCHEMA = "tilelore.blame/1"
MAX_READINGS = 2_000
"""Versions of a file that are read for one answer."""

Key = tuple[str, str, str]
"""Axis, subject and value of a decision: what it says, wherever it stands."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kernel is in one revision: the file with the digest of its bytes, and its name."""

    path: str
    blob: str
    kernel: str


@dataclass
class Asked:
    """Decisions that a revision is asked for, at one place."""

    place: Place
    keys: set[Key] = field(default_factory=set)


def blame_document(
    repository: Repository, path: str, kernel: str, *, revision: str = "HEAD", axis: str = ""
) -> dict[str, Any]:
    """Each decision of a kernel with the revision that introduced it, as JSON values.

    `path` is told from the root of the repository. Raises InputError and UnknownName for what the
    revision does not have.
    """
    newest = repository.resolve(revision)
    with Snapshot(repository) as snapshot:
        walk = _Walk(repository, snapshot)
        start, knowledge = walk.start(newest, path, kernel)
        chosen = [d for d in knowledge.decisions if axis in ("", d.axis)]
        if axis and not chosen:
            known = ", ".join(sorted({decision.axis for decision in knowledge.decisions}))
            raise UnknownName(f"the kernel decides nothing on `{axis}`.", where=kernel,
                              hint=f"It decides on {known}.")  # fmt: skip
        origins = walk.origins(newest, start, {_key(decision) for decision in chosen})
        told = {commit: repository.describe(commit) for commit, _ in set(origins.values())}
    rows = []
    for decision in chosen:
        commit, place = origins[_key(decision)]
        about = told[commit]
        rows.append(
            {
                "axis": decision.axis, "value": decision.value, "subject": decision.subject,
                "kind": decision.kind.value, "revision": commit, "date": about.date,
                "author": about.author, "summary": about.summary, "path_then": place.path,
                "kernel_then": place.kernel, "lines": [list(pair) for pair in decision.lines],
                "file": decision.file,
            }
        )  # fmt: skip
    return {
        "schema": SCHEMA,
        "kernel": knowledge.kernel.name,
        "path": path,
        "revision": newest,
        "decisions": rows,
        "revisions_read": walk.readings,
        "notes": [*walk.notes, *(["the history is cut off here."] if repository.shallow else [])],
    }


def _key(decision: Decision) -> Key:
    return (decision.axis, decision.subject or "", decision.value)


class _Walk:
    """One walk through the history of a kernel."""

    def __init__(self, repository: Repository, snapshot: Snapshot) -> None:
        self.repository = repository
        self.snapshot = snapshot
        self.readings = 0
        self.notes: list[str] = []
        self._read: dict[tuple[str, str], SourceKnowledge] = {}

    def start(self, commit: str, path: str, kernel: str) -> tuple[Place, KernelKnowledge]:
        """The kernel in the newest revision."""
        blob = self.repository.blob_at(commit, path)
        if blob is None:
            hint = "Write the path from the root of the repository."
            raise InputError("the revision has no such file.", where=path, hint=hint)
        source = self._source(commit, path, blob)
        listed = [k.kernel.name for k in source.kernels]
        found = [k for k in source.kernels if k.kernel.name == kernel] if kernel else None
        chosen = found if found is not None else list(source.kernels)
        if len(chosen) != 1:
            hint = f"It has {', '.join(listed)}." if listed else "No kernel was read in it."
            message = f"`{kernel}` names {len(chosen)} kernels." if kernel else "Name one kernel."
            raise UnknownName(message, where=path, hint=hint)
        return Place(path, blob, chosen[0].kernel.name), chosen[0]

    def origins(self, newest: str, start: Place, keys: set[Key]) -> dict[Key, tuple[str, Place]]:
        """The revision that introduced each decision, and where the kernel was then."""
        found: dict[Key, tuple[str, Place]] = {}
        waiting: dict[str, list[Asked]] = {newest: [Asked(start, set(keys))]}
        for commit, parents in self.repository.history(newest):
            for asked in waiting.pop(commit, ()):
                left = set(asked.keys)
                for parent in parents:
                    if not left:
                        break
                    passed = self._passed(commit, parent, asked.place, left)
                    if passed is not None:
                        _ask(waiting.setdefault(parent, []), passed)
                        left -= passed.keys
                found |= dict.fromkeys(left, (commit, asked.place))
            if not waiting:
                break
        for commit, rest in waiting.items():  # past the bound of the history
            found |= {key: (commit, asked.place) for asked in rest for key in asked.keys}
        return found

    def _passed(self, commit: str, parent: str, place: Place, keys: set[Key]) -> Asked | None:
        """Which of the decisions the parent has too, and where; None when it has no such kernel."""
        path = place.path
        blob = self.repository.blob_at(parent, path)
        if blob == place.blob:
            return Asked(place, set(keys))
        if blob is None:
            path = self.repository.renamed_from(parent, commit, path) or ""
            blob = self.repository.blob_at(parent, path) if path else None
            if blob is None:
                return None
            if blob == place.blob:
                return Asked(Place(path, blob, place.kernel), set(keys))
        kernel = self._same_kernel(commit, place, self._source(parent, path, blob))
        if kernel is None:
            return None
        held = {_key(decision) for decision in kernel.decisions}
        return Asked(Place(path, blob, kernel.kernel.name), keys & held)

    def _same_kernel(
        self, commit: str, place: Place, before: SourceKnowledge
    ) -> KernelKnowledge | None:
        named = [k for k in before.kernels if k.kernel.name == place.kernel]
        if named:
            return named[0]
        after = self._source(commit, place.path, place.blob)
        program = next(
            (alpha_digest(k.kernel) for k in after.kernels if k.kernel.name == place.kernel), ""
        )
        return next((k for k in before.kernels if alpha_digest(k.kernel) == program), None)

    def _source(self, commit: str, path: str, blob: str) -> SourceKnowledge:
        """A file of a revision; one of the same bytes at the same path is read once."""
        known = self._read.get((path, blob))
        if known is not None:
            return known
        if self.readings >= MAX_READINGS:
            raise InputError(
                f"the history has more than {MAX_READINGS} versions of the file.", where=path,
                hint="Ask from an older revision with --rev.",
            )  # fmt: skip
        self.readings += 1
        self.snapshot.move_to(commit, self._package(commit, path))
        found = self.snapshot.read(path)
        self._read[path, blob] = found
        if not found.kernels:
            why = found.diagnostics[0].message if found.diagnostics else "it has no kernel."
            self.notes.append(f"{commit[:12]}: {path} gave no kernel: {why}")
        return found

    def _package(self, commit: str, path: str) -> str:
        """The folder of the outermost package around a file, or the folder that it stands in."""
        folder = outer = path.rpartition("/")[0]
        while folder and self.repository.blob_at(commit, f"{folder}/__init__.py"):
            outer = folder
            folder = folder.rpartition("/")[0]
        return outer


def _ask(waiting: list[Asked], more: Asked) -> None:
    for asked in waiting:
        if asked.place == more.place:
            asked.keys |= more.keys
            return
    waiting.append(more)
