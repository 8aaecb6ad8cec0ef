"""A compiler process: reads jobs as JSON lines, compiles each in a child with limits, answers with
JSON lines.

`python -m generators.compile_worker DIALECT CACHE_DIR TIMEOUT_S MEMORY_BYTES`; an empty CACHE_DIR
compiles always. The libraries are imported once; each job runs in a forked child, so that a crash
or a hang of a compiler costs one job. The executed text holds
function definitions and literal constants only (api/lift.py, generators/emit.py); it still runs
nowhere
else.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
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
        result = run_limited(job_from_json(line), backend, Path(cache) if cache else None, limits)
        print(result_to_json(result), flush=True)
    return 0


def run_limited(
    job: CompileJob, backend: ModuleType, cache: Path | None, limits: Limits
) -> CompileResult:
    """Compile in a forked child; killed with everything it started when its time is over."""
    started = time.monotonic()
    allowed = min(limits.seconds, job.most_seconds or limits.seconds)
    folder = tempfile.mkdtemp(prefix="tilelore-compile-")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _child(job, backend, cache, limits, Path(folder), writer)
    os.close(writer)
    text, timed_out = _receive(reader, started + allowed)
    _kill_group(child)
    _, status = os.waitpid(child, 0)
    shutil.rmtree(folder, ignore_errors=True)
    seconds = round(time.monotonic() - started, 3)
    if timed_out:
        message = f"the compiler ran past {allowed:g} s"
        return CompileResult(outcome=Outcome.TIMEOUT, message=message, seconds=seconds)
    if not text:
        message = f"the compiler process ended with {_ending(status)}"
        return CompileResult(outcome=Outcome.CRASHED, message=message, seconds=seconds)
    return replace(result_from_json(text.decode()), seconds=seconds)


def _receive(reader: int, deadline: float) -> tuple[bytes, bool]:
    """All that the child wrote, and whether the deadline came first."""
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                continue
            part = os.read(reader, 65536)
            if not part:
                os.close(reader)
                return b"".join(parts), False
            parts.append(part)
    os.close(reader)
    return b"", True


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
    job: CompileJob,
    backend: ModuleType,
    cache: Path | None,
    limits: Limits,
    folder: Path,
    writer: int,
) -> None:
    """The forked side: limits first, then the compile; never returns."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tempfile.tempdir = str(folder)
    os.environ.update(TMPDIR=str(folder), TRITON_CACHE_DIR=str(folder / "triton"))
    os.environ["CUDA_TILE_TEMP_DIR"] = str(folder)
    os.chdir(folder)
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 0)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        result = compile_here(job, backend, cache, folder)
    except BaseException as problem:
        result = CompileResult(outcome=Outcome.REFUSED, message=_last_words(problem))
    os.write(writer, result_to_json(result).encode())
    os._exit(0)


def compile_here(
    job: CompileJob, backend: ModuleType, cache: Path | None, folder: Path
) -> CompileResult:
    """Execute the definitions of the job and compile, unless that is too much work; machine code
    of a known front-end form is looked up.
    """
    path = folder / "kernel.py"
    path.write_text(job.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("tilelore_kernel", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
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
