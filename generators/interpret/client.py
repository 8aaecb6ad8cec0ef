"""Run emitted Triton source in Triton's interpreter, in a process of its own with a time limit."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from generators.interpret.model import Bound, InterpretJob
from kb.errors import CompilerFailed

Arrays = dict[str, NDArray[Any]]
START_SECONDS = 120.0
"""The libraries take seconds to import, longer on a busy machine."""


class Interpreter:
    """A worker process that serves one program after the other; started on first use."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds
        self._folder = tempfile.TemporaryDirectory(prefix="tilelore-interpret-")
        self._process: subprocess.Popen[str] | None = None
        self._count = 0

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        """End the process and remove what it read and wrote."""
        self._stop()
        self._folder.cleanup()

    def run(
        self, text: str, kernel: str, grid: tuple[int, ...], bound: tuple[Bound, ...],
        arrays: Mapping[str, NDArray[Any]],
    ) -> Arrays:  # fmt: skip
        """The arrays as the kernel left them.

        Raises CompilerFailed when the interpreter refuses the program, dies or runs past the limit.
        """
        self._count += 1
        stem = Path(self._folder.name) / f"k{self._count}"
        module, given, results = (stem.with_suffix(s) for s in (".py", ".in.npz", ".out.npz"))
        module.write_text(text)
        np.savez(given, **arrays)  # type: ignore[arg-type]
        job = InterpretJob(
            module=str(module), kernel=kernel, grid=grid, bound=bound, arrays=str(given),
            results=str(results),
        )  # fmt: skip
        error = str(self._ask(job).get("error", "no answer"))
        if error:
            raise CompilerFailed(f"Triton's interpreter: {error[:400]}", where=kernel)
        with np.load(results) as held:
            found = {name: held[name] for name in held.files}
        given.unlink()
        results.unlink()
        return found

    def _ask(self, job: InterpretJob) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(job.to_json() + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            self._stop()
            raise CompilerFailed("Triton's interpreter died.", where=job.kernel) from None
        return self._answer(process, self.seconds, job.kernel)

    def _answer(self, process: subprocess.Popen[str], seconds: float, where: str) -> dict[str, Any]:
        assert process.stdout is not None
        while True:
            ready, _, _ = select.select([process.stdout], [], [], seconds)
            line = process.stdout.readline() if ready else ""
            if not line:
                self._stop()
                what = "died" if ready else f"ran past {seconds:.0f} s"
                raise CompilerFailed(f"Triton's interpreter {what}.", where=where)
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "generators.interpret.compile"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, bufsize=1, env=environment, cwd=Path(__file__).parents[2],
            )  # fmt: skip
            self._answer(self._process, START_SECONDS, "start")
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None
