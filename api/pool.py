"""The same work on many things in several processes: bounded in time, memory and what waits."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
Result = TypeVar("Result")

FEW = 3
"""So many things are worked on in this process; starting others would take longer."""

WAITING = 3
"""Things per process that wait or are worked on; their results are all that is held."""

PER_PROCESS = 1_000
"""Things per process after which all make room for fresh ones, so that memory stays bounded. The
executor's own `max_tasks_per_child` may leave the last things waiting for a process that is not
started. Source: CPython, issue 115634."""

GARBAGE = 2_000_000
"""Objects that a process makes before it looks for cycles. A reading makes many objects and few
cycles: looking every 100,000 objects took an eighth of the time, and kept 22 MiB in 100 files."""

SECONDS = 120.0
"""Processor time for one thing: on a machine that does much else, too, it is the same."""

PATIENCE = 10
"""Times as long on the clock: what waits for something that does not come ends, too."""

ENDED = "the process that read it ended abruptly."


class _OutOfTime(BaseException):
    """Not an Exception: nothing on the way may take it for a failure of its own."""


@dataclass(frozen=True, slots=True)
class Work(Generic[Thing, Result]):
    """What to do with a thing, and what to say when that ends its process or its time is up."""

    do: Callable[[Thing], Result]
    failed: Callable[[Thing, str], Result]
    seconds: float = SECONDS

    def __call__(self, thing: Thing) -> Result:
        """Do it within the time; only a main thread can be stopped."""
        if threading.current_thread() is not threading.main_thread():
            return self.do(thing)
        timers = (
            (signal.ITIMER_PROF, signal.SIGPROF, self.seconds),
            (signal.ITIMER_REAL, signal.SIGALRM, self.seconds * PATIENCE),
        )
        before = [signal.signal(number, _stop) for _, number, _ in timers]
        for timer, _, seconds in timers:
            signal.setitimer(timer, seconds)
        try:
            return self.do(thing)
        except _OutOfTime:
            return self.failed(thing, f"reading it took longer than {self.seconds:g} s.")
        finally:
            for (timer, number, _), handler in zip(timers, before, strict=True):
                signal.setitimer(timer, 0)
                signal.signal(number, handler)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise _OutOfTime


def each(
    work: Work[Thing, Result], things: Sequence[Thing], *, jobs: int = 0
) -> Iterator[tuple[int, Result]]:
    """Position and result of every thing, as they come, from `jobs` processes (0: one per core).

    What ends its process is tried once more alone, and then it has failed; the others go on.
    """
    jobs = jobs or min(os.cpu_count() or 1, 16)
    if len(things) <= FEW or jobs == 1:
        before = gc.get_threshold()
        gc.set_threshold(GARBAGE)
        try:
            yield from ((index, work(thing)) for index, thing in enumerate(things))
        finally:
            gc.set_threshold(*before)
        return
    left = list(range(len(things)))
    while left:
        done: set[int] = set()
        suspects: list[int] = []
        some = left[: jobs * PER_PROCESS]
        for index, result in _pooled(work, things, some, jobs, suspects):
            done.add(index)
            yield index, result
        for index in suspects:
            done.add(index)
            yield index, _alone(work, things[index])
        left = [index for index in left if index not in done]


def executor(jobs: int) -> ProcessPoolExecutor:
    """Fresh processes that end when this one ends, however it ends."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)


def _begin() -> None:
    gc.set_threshold(GARBAGE)
    end_with_parent()


def end_with_parent() -> None:
    """Watch the process that started this one, and end at once when it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _pooled(
    work: Work[Thing, Result],
    things: Sequence[Thing],
    left: Iterable[int],
    jobs: int,
    suspects: list[int],
) -> Iterator[tuple[int, Result]]:
    """Results until all is done or a process ended; what was under way then are the suspects."""
    waiting: dict[Future[Result], int] = {}
    rest = iter(left)
    with executor(jobs) as pool:
        while not suspects:
            for index in rest:
                waiting[pool.submit(work, things[index])] = index
                if len(waiting) >= jobs * WAITING:
                    break
            if not waiting:
                return
            ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                index, error = waiting.pop(future), future.exception()
                if isinstance(error, BrokenProcessPool):
                    suspects.append(index)
                elif error is not None:
                    yield index, work.failed(things[index], _fault(error))
                else:
                    yield index, future.result()
        suspects.extend(waiting.values())


def _fault(error: BaseException) -> str:
    """What to say of an exception that should not be: one thing fails, and the others go on."""
    return f"tilelore failed on it, please report: {type(error).__name__}: {error}."


def _alone(work: Work[Thing, Result], thing: Thing) -> Result:
    with executor(1) as pool:
        try:
            return pool.submit(work, thing).result()
        except BrokenProcessPool:
            return work.failed(thing, ENDED)


def in_order(
    results: Iterable[tuple[int, Result]], tell: Callable[[int], None]
) -> tuple[Result, ...]:
    """Every result at its position; `tell` hears of each as it comes."""
    found: dict[int, Result] = {}
    for index, result in results:
        found[index] = result
        tell(index)
    return tuple(found[index] for index in sorted(found))
