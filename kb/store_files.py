"""The folder of a local knowledge base: the files that are the truth, the lock, the snapshots.

kernels/ab/<sha256>.nq   one canonical N-Quads file per graph
programs/<sha256>.tlp    tile program texts
index/                   Oxigraph, made from the files
snapshots/N, current     hard-link copies of the index that readers open
PENDING                  what an add is writing; left behind only by a killed process
LOCK                     held by the one writer
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from kb.errors import StoreError, UnknownName
from kb.store_failures import told
from kb.store_quads import digest
from kb.store_records import StoreLocked

FORMAT = "tilelore knowledge base, format 1\n"
UNCHANGED = "Is the disk full? Nothing was changed."
"""What to do when a write was refused and taken back."""
_NAME_ANOTHER = "Name a folder you may write with --kb or TILELORE_KB."


@dataclass(frozen=True, slots=True)
class Pending:
    """What an add has begun to write: new kernel files and the program files it made.

    `graphs` names the graphs of a bulk load, which is undone as a whole.
    """

    contents: tuple[str, ...]
    programs: tuple[str, ...]
    graphs: tuple[str, ...] = ()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, data: bytes) -> None:
    """Write beside, sync, rename into place, sync the folder: never half a file under `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".tmp")
    with beside.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)
    _sync_folder(path.parent)


class Folder:
    """Paths and file operations of one knowledge base folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.index = root / "index"
        self.snapshots = root / "snapshots"
        self._lock: int | None = None

    def create(self) -> None:
        """Make the folder; StoreError when it holds something else."""
        mark = self.root / "FORMAT"
        with told("Cannot use the folder", self.root, _NAME_ANOTHER):
            if mark.exists():
                if mark.read_text() != FORMAT:
                    raise StoreError(
                        "It was made by another version.",
                        where=str(self.root),
                        hint="Export it there and load the export here.",
                    )
                return
            if self.root.exists() and any(p.name != "LOCK" for p in self.root.iterdir()):
                raise StoreError(
                    "The folder is not a knowledge base and is not empty.",
                    where=str(self.root),
                    hint="Name an empty or new folder with --kb.",
                )
            self.root.mkdir(parents=True, exist_ok=True)
            write_durably(mark, FORMAT.encode())

    # --- the one writer

    def lock(self) -> None:
        """Become the writer; StoreLocked says who is."""
        with told("Cannot write there", self.root, _NAME_ANOTHER):
            self.root.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.root / "LOCK", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(handle, 100).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise StoreLocked(
                f"The knowledge base is being written by {holder}.",
                where=str(self.root),
                hint="Wait until it ends; reading (query, explain, kb stats) works meanwhile.",
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}".encode(), 0)
        self._lock = handle

    def unlock(self) -> None:
        """Let the next writer in."""
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    # --- kernel and program files

    def kernel_path(self, content: str) -> Path:
        """Where the graph with this content digest lies."""
        return self.root / "kernels" / content[:2] / f"{content}.nq"

    def program_path(self, name: str) -> Path:
        """Where the program with this digest lies."""
        return self.root / "programs" / f"{name}.tlp"

    def kernel_digests(self) -> dict[str, Path]:
        """Content digests (from the names) of all graph files."""
        return {path.stem: path for path in sorted(self.root.glob("kernels/??/*.nq"))}

    def program_digests(self) -> dict[str, Path]:
        """Digests (from the names) of all program files."""
        return {path.stem: path for path in sorted(self.root.glob("programs/*.tlp"))}

    def disk_bytes(self) -> int:
        """Bytes of everything in the folder, less what goes while we look: the index is compacted
        by threads of its own, which replace its files at any time."""
        total = 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                with suppress(FileNotFoundError):
                    total += os.stat(os.path.join(folder, name)).st_size
        return total

    def program(self, name: str) -> str:
        """The text of a program; UnknownName, and StoreError when the file was changed."""
        path = self.program_path(name)
        if not name.isalnum() or not path.exists():
            raise UnknownName(
                f"No tile program has the digest {name}.",
                where=str(self.root),
                hint="`tilelore kb check` lists what is missing.",
            )
        data = path.read_bytes()
        if digest(data) != name:
            raise StoreError(
                "The program file was changed after it was written.",
                where=str(path),
                hint="Extract its kernel again.",
            )
        return data.decode()

    def begin(
        self, texts: Mapping[str, bytes], programs: Mapping[str, str], graphs: Sequence[str] = ()
    ) -> Pending:
        """Write files by digest; PENDING names them until `finish` or `roll_back`. StoreError when
        the disk refuses; nothing is left then."""
        new = tuple(n for n in sorted(programs) if not self.program_path(n).exists())
        pending = Pending(tuple(texts), new, tuple(graphs))
        written = False
        try:
            with told("The files could not be written", self.root, UNCHANGED):
                beside = self.root / "PENDING.tmp"
                beside.write_text(json.dumps(asdict(pending)))
                beside.replace(self.root / "PENDING")
                for name in new:
                    write_durably(self.program_path(name), programs[name].encode())
                for content, text in texts.items():
                    write_durably(self.kernel_path(content), text)
            written = True
        finally:
            if not written:
                self.roll_back(pending)
        return pending

    def pending(self) -> Pending | None:
        """What a killed add left behind."""
        mark = self.root / "PENDING"
        if not mark.exists():
            return None
        row = json.loads(mark.read_text())
        return Pending(*(tuple(row[name]) for name in ("contents", "programs", "graphs")))

    def finish(self) -> None:
        """The add is done."""
        (self.root / "PENDING").unlink(missing_ok=True)

    def roll_back(self, pending: Pending) -> None:
        """Remove what the add wrote."""
        for content in pending.contents:
            self.kernel_path(content).unlink(missing_ok=True)
        for name in pending.programs:
            self.program_path(name).unlink(missing_ok=True)
        self.finish()

    # --- snapshots: what readers open while the writer goes on

    @property
    def dirty(self) -> Path:
        """Exists while the newest snapshot is older than the files."""
        return self.root / "DIRTY"

    def current(self) -> Path | None:
        """The newest published snapshot."""
        mark = self.root / "current"
        if not mark.exists():
            return None
        path = self.snapshots / mark.read_text().strip()
        return path if path.is_dir() else None

    def next_snapshot(self) -> Path:
        """A free name for a snapshot."""
        self.snapshots.mkdir(exist_ok=True)
        numbers = [int(p.name) for p in self.snapshots.iterdir() if p.name.isdigit()]
        return self.snapshots / str(max(numbers, default=0) + 1)

    def publish(self, snapshot: Path) -> None:
        """Make it the current one and drop those that nobody reads."""
        beside = self.root / "current.tmp"
        beside.write_text(snapshot.name + "\n")
        beside.replace(self.root / "current")
        for old in self.snapshots.iterdir():
            if old.is_dir() and old.name != snapshot.name:
                self._drop_unread(old)

    def _drop_unread(self, snapshot: Path) -> None:
        handle = os.open(snapshot, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(snapshot, ignore_errors=True)
        except OSError:
            return  # a reader holds it; the next publish tries again
        finally:
            os.close(handle)


def hold(snapshot: Path) -> int | None:
    """A handle that keeps the snapshot from being dropped until closed; None when it is gone."""
    try:
        handle = os.open(snapshot, os.O_RDONLY)
    except FileNotFoundError:
        return None
    fcntl.flock(handle, fcntl.LOCK_SH)
    if snapshot.is_dir():
        return handle
    os.close(handle)
    return None
