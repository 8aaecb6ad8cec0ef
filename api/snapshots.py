"""Source files of one revision at a time, as plain data in a private folder, and what they say."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType

from api.extract import Progress, extract_many, extract_or_explain
from api.revisions import MAX_BLOB, Blob, Repository
from api.source_files import source_tree
from api.sources import SourceFile
from kb.errors import InputError
from kb.knowledge import KernelKnowledge, SourceKnowledge

SUFFIXES = (".py", ".json", ".yaml", ".yml", ".cu", ".cuh", ".h")
"""Modules, headers, and tables of configurations beside them."""

MAX_BYTES = 512 * 1024 * 1024


class Snapshot:
    """A folder that holds the sources of one revision; moving it on writes only what changed."""

    def __init__(self, repository: Repository, under: Sequence[str] = ()) -> None:
        self.repository = repository
        self.under = tuple(under)
        self.files: dict[str, Blob] = {}
        self._home = tempfile.TemporaryDirectory(prefix="tilelore-revision-")
        self.folder = Path(self._home.name).resolve()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._home.cleanup()

    def move_to(self, commit: str, folder: str | None = None) -> None:
        """Hold the files of this commit, below the given paths or below one folder instead."""
        under = self.under if folder is None else (folder,)
        listed = self.repository.files(commit, under, SUFFIXES)
        if sum(blob.size for blob in listed) > MAX_BYTES:
            hint = "Name paths to look at."
            raise InputError(f"more than {MAX_BYTES} bytes.", where=commit, hint=hint)
        wanted = {blob.path: blob for blob in listed if blob.size <= MAX_BLOB}
        for path in [path for path in self.files if path not in wanted]:
            self._place(path).unlink(missing_ok=True)
            del self.files[path]
        for path, blob in wanted.items():
            held = self.files.get(path)
            if held is None or held.digest != blob.digest:
                self._write(path, blob)

    def _write(self, path: str, blob: Blob) -> None:
        place = self._place(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.repository.content(blob.digest) or b"")
        except OSError as error:  # a file where another revision has a folder
            raise InputError(f"it cannot be held: {error.strerror}.", where=path) from None
        self.files[path] = blob

    def _place(self, path: str) -> Path:
        return self.folder.joinpath(*PurePosixPath(path).parts)

    def source(self, path: str) -> SourceFile:
        """The file of a path of the repository, in its package."""
        place = self._place(path)
        root = place.parent
        while (root / "__init__.py").is_file() and root != self.folder:
            root = root.parent
        return SourceFile(path=place, root=root, shown=path)

    def with_kernels(self) -> tuple[str, ...]:
        """Paths of files that may hold kernels."""
        found = source_tree(str(self.folder)).files
        return tuple(file.relative_to(self.folder).as_posix() for file in found)

    def read(self, path: str) -> SourceKnowledge:
        """What one file says in this revision; what stood in the way is a diagnostic."""
        return extract_or_explain(self.source(path))

    def kernels(
        self, paths: Sequence[str], progress: Progress | None = None
    ) -> tuple[KernelKnowledge, ...]:
        """The kernels of several files."""
        sources = extract_many([self.source(path) for path in paths], progress=progress)
        return tuple(kernel for source in sources for kernel in source.kernels)
