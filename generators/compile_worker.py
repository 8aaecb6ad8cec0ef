"""A compiler process: reads lines of jobs as JSON, compiles the jobs of a line in a child with
limits, answers with a JSON line for each.

`python -m generators.compile_worker DIALECT CACHE_DIR TIMEOUT_S MEMORY_BYTES`; an empty CACHE_DIR
compiles always. The libraries are imported once; jobs run in forked children, so that a crash or a
hang of a compiler costs one job. The executed text holds
function definitions and literal constants only (api/lift.py, generators/emit.py); it still runs
nowhere
else.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType

from generators.compile_model import (
    CompileJob,
    CompileResult,
    FrontEnd,
    MachineCode,
    Outcome,
    job_from_json,
    result_from_json,
    result_to_json,
)

_MESSAGE_CHARS = 2000
_LATE_SECONDS = 2
_SETTINGS = {
    "CUDA_TILE_CACHE_DIR": "off",
    "TRITON_ALWAYS_COMPILE": "1",
    "TRITON_DEFAULT_FP_FUSION": "1",
    "TRITON_FRONT_END_DEBUGGING": "0",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one compile: wall seconds, bytes of address space."""

    seconds: float
    memory_bytes: int


def main(arguments: list[str]) -> int:
    """Serve jobs until standard input ends."""
    dialect, cache, seconds, memory = arguments
    os.environ.update(_SETTINGS)
    backend = importlib.import_module(f"generators.{dialect}.compile")
    backend.warm()
    limits = Limits(float(seconds), int(memory))
    print(json.dumps({"toolchain": backend.toolchain()}), flush=True)
    for line in sys.stdin:
        jobs = [job_from_json(text) for text in json.loads(line)]
        for result in run_limited(jobs, backend, Path(cache) if cache else None, limits):
            print(result_to_json(result), flush=True)
    return 0


def run_limited(
    jobs: Sequence[CompileJob], backend: ModuleType, cache: Path | None, limits: Limits
) -> Iterator[CompileResult]:
    """Compile one job after the other in a forked child. One that crashes the child or runs out of
    its time ends it with everything that it started; the others get a new one.
    """
    left = list(jobs)
    while left:
        for result in _in_child(tuple(left), backend, cache, limits):
            del left[0]
            yield result


def _in_child(
    jobs: tuple[CompileJob, ...], backend: ModuleType, cache: Path | None, limits: Limits
) -> Iterator[CompileResult]:
    """Results of the first jobs, up to one that ends the child."""
    folder = tempfile.mkdtemp(prefix="tilelore-compile-")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _child(jobs, backend, cache, limits, Path(folder), writer)
    os.close(writer)
    answers = _Answers(reader)
    try:
        for job in jobs:
            started = time.monotonic()
            allowed = min(limits.seconds, job.most_seconds or limits.seconds)
            text = answers.next(started + allowed)
            seconds = round(time.monotonic() - started, 3)
            if text is None:
                message = f"the compiler ran past {allowed:g} s"
                yield CompileResult(outcome=Outcome.TIMEOUT, message=message, seconds=seconds)
                return
            if not text:
                message = f"the compiler process ended with {_ending(_end(child))}"
                child = 0
                yield CompileResult(outcome=Outcome.CRASHED, message=message, seconds=seconds)
                return
            yield replace(result_from_json(text.decode()), seconds=seconds)
    finally:
        os.close(reader)
        if child:
            _end(child)
        shutil.rmtree(folder, ignore_errors=True)


def _end(child: int) -> int:
    """End the child and what it started; its wait status."""
    _kill_group(child)
    return os.waitpid(child, 0)[1]


class _Answers:
    """Lines that a child writes, read with a deadline."""

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._read = b""

    def next(self, deadline: float) -> bytes | None:
        """The next line; empty when the child has ended, None when the deadline came first."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            while b"\n" not in self._read:
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                if selector.select(left):
                    part = os.read(self._reader, 65536)
                    if not part:
                        return b""
                    self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line


def _kill_group(child: int) -> None:
    """End what the child started (ptxas, tileiras) and the child itself."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit status {os.waitstatus_to_exitcode(status)}"


def _child(
    jobs: tuple[CompileJob, ...],
    backend: ModuleType,
    cache: Path | None,
    limits: Limits,
    folder: Path,
    writer: int,
) -> None:
    """The forked side: limits first, then the compiles; never returns."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The parent ends a child that is late; this ends one whose parent was ended.
    processor_seconds = math.ceil(len(jobs) * limits.seconds) + _LATE_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds))
    tempfile.tempdir = str(folder)
    os.environ.update(TMPDIR=str(folder), TRITON_CACHE_DIR=str(folder / "triton"))
    os.environ["CUDA_TILE_TEMP_DIR"] = str(folder)
    os.chdir(folder)
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 0)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    modules: dict[str, ModuleType] = {}
    for job in jobs:
        try:
            if job.text not in modules:
                modules[job.text] = _module(job.text, folder / str(len(modules)))
            result = compile_here(job, modules[job.text], backend, cache)
        except BaseException as problem:
            lacking = isinstance(problem, backend.UNSUPPORTED)
            outcome = Outcome.UNSUPPORTED if lacking else Outcome.REFUSED
            result = CompileResult(outcome=outcome, message=_last_words(problem))
        os.write(writer, result_to_json(result).encode() + b"\n")
    os._exit(0)


def _module(text: str, folder: Path) -> ModuleType:
    """Execute the definitions of a job; their file stays, for compilers read it."""
    folder.mkdir()
    path = folder / "kernel.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("tilelore_kernel", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def compile_here(
    job: CompileJob, module: ModuleType, backend: ModuleType, cache: Path | None
) -> CompileResult:
    """Compile, unless that is too much work; machine code of a known input form is looked up."""
    prepared = backend.prepare(job, module)
    front_end: FrontEnd = backend.front_end(prepared)
    if job.most_work is not None and (front_end.work or 0) > job.most_work:
        message = f"{front_end.work} values for each thread to compute; at most {job.most_work}"
        return CompileResult(outcome=Outcome.LARGE, front_end=front_end, message=message)
    machine = _stored(job, backend, cache, front_end) if cache is not None else None
    if machine is None:
        machine = backend.machine_code(prepared)
        if cache is not None:
            _store(machine, _place(job, backend, cache, front_end))
    return CompileResult(outcome=Outcome.DONE, front_end=front_end, machine=machine)


def _place(job: CompileJob, backend: ModuleType, cache: Path, front_end: FrontEnd) -> Path:
    """File of the machine code of one front-end form: the compiler is a function of that form and
    the target.
    """
    asked = f"{backend.toolchain()}\n{job.target}\n{front_end.digest}"
    key = hashlib.sha256(asked.encode()).hexdigest()
    return cache / "machine" / key[:2] / f"{key}.json"


def _stored(
    job: CompileJob, backend: ModuleType, cache: Path, front_end: FrontEnd
) -> MachineCode | None:
    try:
        return MachineCode(**json.loads(_place(job, backend, cache, front_end).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _store(machine: MachineCode, path: Path) -> None:
    """Write beside and rename; a full disk only costs the cache entry."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(asdict(machine)))
        beside.replace(path)
    except OSError:
        return


def _last_words(problem: BaseException) -> str:
    text = "".join(traceback.format_exception_only(problem)).strip()
    return text[-_MESSAGE_CHARS:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
