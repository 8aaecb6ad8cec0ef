"""Files of git revisions, read with plumbing: nothing is checked out, no hook, filter, pager,
textconv, signature check or fetch of the repository runs.

Every call names its objects by full digest after `rev-parse`, so that no name of a person or of a
tree is ever taken for an option.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType

from kb.errors import InputError

SECONDS = 60
MAX_OUTPUT = 64 * 1024 * 1024
MAX_BLOB = 8_000_000
MAX_COMMITS = 50_000
MAX_FILES = 20_000

_DIGEST = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PLAIN = (b"100644", b"100755")
_SWITCHES = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "log.showSignature=false",
    "protocol.allow=never", "core.pager=cat", "diff.external=", "gc.auto=0",
)  # fmt: skip
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1", "GIT_PAGER": "cat", "LC_ALL": "C",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Blob:
    """A plain file of a tree: its path and the digest of its content."""

    path: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A revision: `date` is the author's, ISO 8601; `summary` is the first line of its message."""

    digest: str
    date: str
    author: str
    summary: str


class Repository:
    """One git repository; use it as a context manager, it keeps one reading process."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError("there is no such folder.", where=str(folder), hint="Name a git one.")
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        if self._run("rev-parse", "--git-dir", where=str(folder)) is None:
            hint = "Name the folder of a repository that belongs to you."
            raise InputError("this is not a git repository.", where=str(folder), hint=hint)

    def __enter__(self) -> Repository:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None

    def resolve(self, revision: str) -> str:
        """The digest of the commit that a person named. InputError when there is none."""
        strange = revision.startswith("-") or not revision.isprintable() or not revision
        if strange or len(revision) > 500:
            hint = "Name a commit, branch or tag."
            raise InputError("this cannot name a revision.", where=revision[:80], hint=hint)
        wanted = f"{revision}^{{commit}}"
        found = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", wanted)
        digest = (found or b"").decode(errors="replace").strip()
        if not _DIGEST.fullmatch(digest):
            hint = f"Ask `git -C {self.folder} log` what there is."
            raise InputError("there is no such revision.", where=revision, hint=hint)
        return digest

    def files(
        self, commit: str, under: Sequence[str] = (), suffixes: Iterable[str] = (".py",)
    ) -> tuple[Blob, ...]:
        """Plain files of a commit below the given paths, sorted. InputError past MAX_FILES."""
        names = [checked(path) for path in under if path not in ("", ".")]
        out = self._run("ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--", *names)
        found = []
        kept = tuple(suffixes)
        for entry in (out or b"").split(b"\0"):
            head, _, raw = entry.partition(b"\t")
            fields = head.split()
            path = raw.decode("utf-8", errors="surrogateescape")
            if len(fields) == 4 and fields[0] in _PLAIN and path.endswith(kept) and _safe(path):
                found.append(Blob(path, fields[2].decode(), int(fields[3])))
        if len(found) > MAX_FILES:
            hint = "Name paths to look at."
            raise InputError(f"{len(found)} files; at most {MAX_FILES} are read.", where=commit,
                             hint=hint)  # fmt: skip
        return tuple(found)

    def blob_at(self, commit: str, path: str) -> str | None:
        """The digest of the plain file at a path of a commit, None when there is none."""
        head, _ = self._ask(f"{commit}:{checked(path)}", content=False)
        return head[0] if head is not None and head[1] == "blob" else None

    def content(self, digest: str) -> bytes | None:
        """The bytes of a blob; None when it is larger than MAX_BLOB or missing."""
        head, _ = self._ask(digest, content=False)
        if head is None or head[1] != "blob" or int(head[2]) > MAX_BLOB:
            return None
        return self._ask(digest, content=True)[1]

    def history(self, commit: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Commits with their parents, children first, at most MAX_COMMITS."""
        out = self._run("rev-list", "--topo-order", "--parents", f"--max-count={MAX_COMMITS}",
                        commit) or b""  # fmt: skip
        rows = [line.decode().split() for line in out.splitlines()]
        return tuple((row[0], tuple(row[1:])) for row in rows)

    def renamed_from(self, parent: str, commit: str, path: str) -> str | None:
        """The path that `path` of `commit` had in `parent`, where git sees a renaming."""
        out = self._run("diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status",
                        "--no-ext-diff", "--no-textconv", parent, commit) or b""  # fmt: skip
        fields = out.split(b"\0")
        for status, old, new in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
            if status[:1] == b"R" and new == os.fsencode(path):
                return os.fsdecode(old)
        return None

    def describe(self, commit: str) -> Commit:
        """Date, author and summary of a commit."""
        form = "--format=%aI%x00%an%x00%s"
        out = self._run("log", "-1", "--no-walk", "--no-patch", form, commit) or b""
        date, author, summary = ([*out.decode("utf-8", errors="replace").strip("\n").split("\0"),
                                  "", ""])[:3]  # fmt: skip
        return Commit(commit, date, author, summary)

    @property
    def shallow(self) -> bool:
        """Whether the history is cut off."""
        return (self._run("rev-parse", "--is-shallow-repository") or b"").strip() == b"true"

    # -- processes

    def _command(self, *arguments: str) -> list[str]:
        switches = [part for switch in _SWITCHES for part in ("-c", switch)]
        return ["git", "-C", str(self.folder), *switches, "--no-pager", *arguments]

    def _run(self, *arguments: str, where: str = "") -> bytes | None:
        """What git prints; None when it says no. InputError when it is missing or too slow."""
        try:
            done = subprocess.run(
                self._command(*arguments), capture_output=True, timeout=SECONDS, check=False,
                stdin=subprocess.DEVNULL, env=_environment(),
            )  # fmt: skip
        except FileNotFoundError:
            raise InputError("git is not installed.", where=where, hint="Install git.") from None
        except subprocess.TimeoutExpired:
            hint = "Name fewer paths."
            raise InputError(
                f"git gave no answer in {SECONDS} s.", where=where, hint=hint
            ) from None
        if len(done.stdout) > MAX_OUTPUT:
            raise InputError("git says too much.", where=where, hint="Name fewer paths.")
        return done.stdout if done.returncode == 0 else None

    def _ask(self, name: str, *, content: bool) -> tuple[list[str] | None, bytes]:
        """One object of the reading process: digest, type and size, and its bytes."""
        process = self._reader()
        assert process.stdin is not None
        assert process.stdout is not None
        command = "contents" if content else "info"
        try:
            process.stdin.write(f"{command} {name}\n".encode("utf-8", errors="surrogateescape"))
            process.stdin.flush()
        except BrokenPipeError:
            raise InputError("git ended.", where=str(self.folder), hint="Try it alone.") from None
        line = process.stdout.readline().decode("utf-8", errors="replace").rstrip("\n")
        fields = line.rsplit(" ", 2)
        if len(fields) != 3 or not _DIGEST.fullmatch(fields[0]):
            return None, b""
        data = b""
        if content:
            data = process.stdout.read(int(fields[2]))
            process.stdout.read(1)
        return fields, data

    def _reader(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command("cat-file", "--batch-command"), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(),
            )  # fmt: skip
        return self._process


def _environment() -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, **_ENVIRONMENT}


def checked(path: str) -> str:
    """A path as git names it. InputError when it leaves the repository or holds a line end."""
    plain = PurePosixPath(path).as_posix()
    if not _safe(plain):
        raise InputError("this is no path inside the repository.", where=path[:80],
                         hint="Write it from the root of the repository.")  # fmt: skip
    return plain


def _safe(path: str) -> bool:
    parts = PurePosixPath(path).parts
    strange = any(part in ("..", ".git") or "\\" in part for part in parts)
    control = any(ord(letter) < 32 for letter in path)
    return bool(parts) and not strange and not control and not PurePosixPath(path).is_absolute()
