"""A process that emits source from a DSL file alone; started again when it died."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from kb.errors import CannotEmit

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 60.0


class EmitProcess(AbstractContextManager["EmitProcess"]):
    """Give DSL text, get source text. Safe to use from several threads: one job at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="tilelore-emit-")
        self._lock = threading.Lock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process and remove its empty working folder."""
        self._stop()
        self._folder.cleanup()

    def emit(self, design: str, dialect: str) -> str:
        """Source text of the program that a DSL text holds; the text travels as a file.

        Raises CannotEmit with the emitter's own words, or when the process died or ran past its
        time.
        """
        with self._lock:
            process = self._running()
            if process.stdin is None or process.stdout is None:
                raise CannotEmit("the emitter has no pipes.")
            guard = threading.Timer(SECONDS, process.kill)
            guard.start()
            try:
                file = Path(self._folder.name, "kernel.dsl")
                file.write_text(design, encoding="utf-8")
                process.stdin.write(json.dumps({"file": str(file), "dialect": dialect}) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            finally:
                guard.cancel()
            if not line:
                raise CannotEmit(f"the emitter ended: {self._stop()}")
        answer = json.loads(line)
        if "error" in answer:
            raise CannotEmit(str(answer["error"]))
        return str(answer["text"])

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "generators.emit_worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                cwd=self._folder.name, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        return self._process

    def _stop(self) -> str:
        """End the process; its last words."""
        process, self._process = self._process, None
        if process is None:
            return ""
        if process.stdin:
            process.stdin.close()
        process.kill()
        words = process.stderr.read() if process.stderr else ""
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()
        return words.strip().splitlines()[-1] if words.strip() else "no message"
