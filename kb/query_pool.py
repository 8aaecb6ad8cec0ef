"""Runs people's SPARQL in child processes that can be killed (`kb/query_worker.py`).

The engine cannot cancel a query (oxigraph #1926), so the time limit is the life of a process.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from kb.errors import InputError, StoreError
from kb.query_worker import read_frame, write_frame
from kb.results import BindingsFormat, Formats, GraphFormat, ResultKind, Serialized
from kb.sparql_text import (
    PREFIXES,
    calls_service,
    check_depth,
    form,
    has_dataset,
    is_update,
    syntax_problem,
)

WORKER = Path(__file__).with_name("query_worker.py")


class QueryTimeout(StoreError):
    """The query ran past its time limit and was killed."""


class ResultTooLarge(StoreError):
    """The answer passed the row, byte or memory limit; nothing of it is returned."""


class StoreBusy(StoreError):
    """All readers are taken, or a reader did not start."""


class UpdateRefused(StoreError):
    """An update was sent to where only queries are answered."""


class ServiceRefused(InputError):
    """The query calls another endpoint; the store makes no outbound request."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may take: seconds of wall time, rows, bytes of answer, bytes of memory."""

    timeout_s: float = 30.0
    max_rows: int = 100_000
    max_bytes: int = 64 * 2**20
    memory_bytes: int = 3 * 2**30


@dataclass(frozen=True, slots=True)
class Query:
    """A query with the dataset it is asked of (both empty: the union of all graphs)."""

    text: str
    default_graphs: Sequence[str] = ()
    named_graphs: Sequence[str] = ()
    formats: Formats = field(default_factory=Formats)
    base: str = ""


def refuse_early(text: str) -> None:
    """UpdateRefused for an update, ServiceRefused for SERVICE, SyntaxProblem when nested too deep.

    The friendly answers; what really protects is the child process.
    """
    check_depth(text)
    if is_update(text):
        raise UpdateRefused(
            f"{form(text)} would change the store; queries only read.",
            hint="Use SELECT, ASK, CONSTRUCT or DESCRIBE; kernels are added with "
            "`tilelore extract --kb` and `tilelore kb load`.",
        )
    if calls_service(text):
        raise ServiceRefused(
            "SERVICE is refused: queries make no outbound request.",
            hint="Ask the other endpoint yourself and pass its rows with VALUES.",
        )


class Worker:
    """One child process; used by one query at a time."""

    def __init__(self, memory_bytes: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(WORKER), str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.sandbox = ""

    def start(self, deadline: float) -> bool:
        """Wait until the child has left the network; False when it died."""
        assert self.process.stdout
        if not self.sandbox:
            hello = _frame_by(self.process.stdout, deadline)
            self.sandbox = hello[0]["sandbox"] if hello else ""
        return bool(self.sandbox)

    def exchange(
        self, header: dict[str, Any], body: bytes, deadline: float
    ) -> tuple[dict[str, Any], bytes] | None:
        """The worker's answer, None when it died; QueryTimeout when the deadline passes."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            write_frame(self.process.stdin, header, body)
            return _frame_by(self.process.stdout, deadline)
        except BrokenPipeError:
            return None

    @property
    def alive(self) -> bool:
        """Whether the child still runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End the child now and take back its resources."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                _close(stream)


def _close(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        return


class _Deadline:
    """A reader of a pipe that gives up at a time; reads exactly what is asked."""

    def __init__(self, stream: IO[bytes], deadline: float) -> None:
        self.handle = stream.fileno()
        self.deadline = deadline

    def read(self, count: int) -> bytes:
        """`count` bytes, fewer at the end of the stream; TimeoutError past the deadline."""
        parts: list[bytes] = []
        while count:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.handle], [], [], left)[0]:
                raise TimeoutError
            part = os.read(self.handle, min(count, 2**20))
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _frame_by(stream: IO[bytes], deadline: float) -> tuple[dict[str, Any], bytes] | None:
    return read_frame(_Deadline(stream, deadline))  # type: ignore[arg-type]


class QueryPool:
    """At most `size` children; idle ones are kept for the next query."""

    def __init__(self, limits: Limits, *, size: int = 4) -> None:
        self.limits = limits
        self._slots = threading.BoundedSemaphore(size)
        self._idle: list[Worker] = []
        self._guard = threading.Lock()

    def run(
        self,
        snapshot: Path,
        query: Query,
        *,
        timeout: float | None = None,
        max_rows: int | None = None,
    ) -> Serialized:
        """The answer of one query on a snapshot folder.

        Raises SyntaxProblem, UpdateRefused, ServiceRefused, QueryTimeout, ResultTooLarge,
        StoreBusy; StoreError when the engine fails.
        """
        refuse_early(query.text)
        seconds = self.limits.timeout_s if timeout is None else timeout
        deadline = time.monotonic() + seconds
        if not self._slots.acquire(timeout=seconds):
            raise StoreBusy("All readers are busy.", hint="Ask again in a moment.")
        try:
            header, body = self._ask(self._request(snapshot, query, max_rows), query, deadline)
        except TimeoutError:
            raise QueryTimeout(
                f"The query ran past {seconds:g} s and was ended.",
                hint="Bind more variables, put kernel-local patterns inside GRAPH ?g { }, "
                "or add LIMIT.",
            ) from None
        finally:
            self._slots.release()
        if "error" in header:
            raise _error(header, query.text)
        kind = ResultKind(header["kind"])
        formats = GraphFormat if kind is ResultKind.GRAPH else BindingsFormat
        return Serialized(kind, str(formats[header["format"]].value), body)

    def _request(self, snapshot: Path, query: Query, max_rows: int | None) -> dict[str, Any]:
        formats = query.formats
        return {
            "snapshot": str(snapshot),
            "prefixes": PREFIXES,
            "default_graphs": list(query.default_graphs),
            "named_graphs": list(query.named_graphs),
            "base": query.base,
            # The engine's union would override FROM.
            "union": not has_dataset(query.text),
            "max_rows": self.limits.max_rows if max_rows is None else max_rows,
            "max_bytes": self.limits.max_bytes,
            "formats": {
                "bindings": formats.bindings.name,
                "boolean": formats.boolean.name,
                "graph": formats.graph.name,
            },
        }

    def _ask(
        self, request: Mapping[str, Any], query: Query, deadline: float
    ) -> tuple[dict[str, Any], bytes]:
        worker = self._take()
        kept = False
        try:
            if not worker.start(deadline):
                raise StoreBusy("A reader did not start.", hint="Is memory short?")
            if worker.sandbox == "none" and "service" in query.text.lower():
                # No way to take the network away here: the word alone is refused.
                kept = True
                return {"error": "service"}, b""
            answer = worker.exchange(dict(request), query.text.encode(), deadline)
            kept = answer is not None and worker.alive
        finally:
            if kept:
                with self._guard:
                    self._idle.append(worker)
            else:
                worker.kill()
        if answer is None:
            return {"error": "memory"}, b""
        return answer

    def _take(self) -> Worker:
        with self._guard:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
                worker.kill()
        return Worker(self.limits.memory_bytes)

    def close(self) -> None:
        """End all idle children."""
        with self._guard:
            for worker in self._idle:
                worker.kill()
            self._idle.clear()


def _error(header: Mapping[str, Any], text: str) -> Exception:
    kind, said = header["error"], header.get("message", "")
    if kind == "syntax":
        return syntax_problem(said, text)
    if kind == "too_large":
        return ResultTooLarge(f"Refused: {said}.", hint="Add LIMIT or ask for less.")
    if kind == "memory":
        return ResultTooLarge(
            "The query needs more memory than it may take.",
            hint="Bind more variables, or add LIMIT inside sub-queries.",
        )
    if kind == "service":
        return ServiceRefused(
            "SERVICE is refused: queries make no outbound request.",
            hint="On this machine the network cannot be taken away from a query, "
            "so the word itself is refused.",
        )
    return StoreError(f"The query failed: {said}.", hint="Check the store: `tilelore kb check`.")
