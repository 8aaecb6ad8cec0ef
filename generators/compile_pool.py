"""Compiler processes as a service: give a job, get a result; results are cached by content and
toolchain.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from importlib import util
from pathlib import Path
from queue import Queue
from types import TracebackType

from generators.compile_model import (
    CompileJob,
    CompileResult,
    Outcome,
    job_to_json,
    result_from_json,
    result_to_json,
)
from kb.errors import CompilerFailed

ROOT = Path(__file__).resolve().parent.parent
_LIBRARY = {"cutile": "cuda.tile", "triton": "triton"}
_GRACE_SECONDS = 30.0
_ENVIRONMENT = (
    "PATH", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "CUDA_HOME",
    "CUDA_PATH", "SYSTEMROOT",
)  # fmt: skip
_REMEMBERED = frozenset({Outcome.DONE, Outcome.REFUSED, Outcome.UNSUPPORTED})
"""Outcomes that are a property of the job; a crash or a timeout may be the machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """`workers` processes per dialect; `cache` folder; wall seconds and bytes of address space per
    compile.

    `reuse` lets a worker look machine code up by the compiler's input form instead of compiling
    again.
    """

    cache: Path
    workers: int = 1
    seconds: float = 60.0
    memory_bytes: int = 16 << 30
    reuse: bool = True


def available(dialect: str) -> bool:
    """True when the compiler library of a dialect is installed."""
    library = _LIBRARY.get(dialect, "")
    try:
        return bool(library) and util.find_spec(library) is not None
    except ModuleNotFoundError:
        return False


class CompilerProcess:
    """One process of one dialect; started on first use, started again after it died."""

    def __init__(self, dialect: str, settings: PoolSettings) -> None:
        self._dialect = dialect
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self.toolchain = ""

    def start(self) -> None:
        """Start when not running. Raises CompilerFailed when the library is not installed."""
        if self._process is not None and self._process.poll() is None:
            return
        if not available(self._dialect):
            raise CompilerFailed(
                f"the compiler of {self._dialect} is not installed.",
                hint=f"Install `{_LIBRARY.get(self._dialect, self._dialect)}`.",
            )
        limits = [str(self._settings.seconds), str(self._settings.memory_bytes)]
        command = [sys.executable, "-m", "generators.compile_worker", self._dialect]
        self._process = subprocess.Popen(
            [*command, str(self._settings.cache) if self._settings.reuse else "", *limits],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=_environment(),
        )  # fmt: skip
        head = self._read(self._process)
        if not head:
            raise CompilerFailed(
                f"the compiler process of {self._dialect} did not start.",
                hint="`python -m generators.compile_worker DIALECT '' 60 0` says why.",
            )
        self.toolchain = str(json.loads(head)["toolchain"])

    def compile(self, jobs: Sequence[CompileJob]) -> Iterator[CompileResult]:
        """Run jobs one after the other; what a process that dies leaves is recorded as a crash."""
        self.start()
        process = self._process
        if process is None or process.stdin is None:
            raise CompilerFailed("the compiler process is gone.", hint="Try again.")
        try:
            process.stdin.write(json.dumps([job_to_json(job) for job in jobs]) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            self.stop()
        for _ in jobs:
            line = self._read(process) if self._process is not None else ""
            if line:
                yield result_from_json(line)
                continue
            self.stop()
            yield CompileResult(outcome=Outcome.CRASHED, message="the compiler process ended")

    def _read(self, process: subprocess.Popen[str]) -> str:
        """One line; the process is ended when it is late beyond its own limit."""
        guard = threading.Timer(self._settings.seconds + _GRACE_SECONDS, process.kill)
        guard.start()
        try:
            return process.stdout.readline() if process.stdout else ""
        finally:
            guard.cancel()

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
        process.kill()
        process.wait()


@dataclass
class CompilerPool(AbstractContextManager["CompilerPool"]):
    """Compiler processes shared by threads, with the cache of results in front of them."""

    settings: PoolSettings
    _idle: dict[str, Queue[CompilerProcess]] = field(default_factory=dict)
    _all: list[CompilerProcess] = field(default_factory=list)
    _toolchains: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process."""
        for process in self._all:
            process.stop()

    def toolchain(self, dialect: str) -> str:
        """Versions of the compiler of a dialect."""
        self._queue(dialect)
        return self._toolchains[dialect]

    def compile(self, job: CompileJob) -> CompileResult:
        """Answer from the cache, else compile. Raises CompilerFailed when the library is absent."""
        return self.compile_all((job,))[0]

    def compile_all(self, jobs: Sequence[CompileJob]) -> tuple[CompileResult, ...]:
        """The same for jobs of one dialect, which share a process where that is all they share."""
        if not jobs:
            return ()
        queue = self._queue(jobs[0].dialect)
        results = {job: _load(self._place(job)) for job in jobs}
        missing = [job for job in results if results[job] is None]
        process = queue.get() if missing else None
        try:
            for job, result in zip(
                missing, process.compile(missing) if process else (), strict=True
            ):
                results[job] = result
                if result.outcome in _REMEMBERED:
                    _save(self._place(job), result)
        finally:
            if process is not None:
                queue.put(process)
        return tuple(found for job in jobs if (found := results[job]) is not None)

    def _place(self, job: CompileJob) -> Path:
        key = job.key(self._toolchains[job.dialect])
        return self.settings.cache / "compile" / key[:2] / f"{key}.json"

    def _queue(self, dialect: str) -> Queue[CompilerProcess]:
        with self._lock:
            if dialect not in self._idle:
                first = CompilerProcess(dialect, self.settings)
                first.start()
                others = [
                    CompilerProcess(dialect, self.settings)
                    for _ in range(self.settings.workers - 1)
                ]
                queue: Queue[CompilerProcess] = Queue()
                for process in (*others, first):
                    queue.put(process)
                self._all += [first, *others]
                self._toolchains[dialect] = first.toolchain
                self._idle[dialect] = queue
            return self._idle[dialect]


def _environment() -> dict[str, str]:
    """What a compiler needs to find itself, and nothing that the session keeps to itself."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT)}


def _load(path: Path) -> CompileResult | None:
    try:
        return replace(result_from_json(path.read_text(encoding="utf-8")), seconds=0.0)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _save(path: Path, result: CompileResult) -> None:
    """Write beside and rename; a full disk only costs the cache entry."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        beside.write_text(result_to_json(result), encoding="utf-8")
        beside.replace(path)
    except OSError:
        return
