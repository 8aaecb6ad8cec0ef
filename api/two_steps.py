"""Files are read in processes, then each thing read is worked on in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from api.pool import executor

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_and_work(
    files: Sequence[Path],
    read: Callable[[Path], Sequence[Item]],
    work: Callable[[Item], Result],
    jobs: int,
) -> Iterator[tuple[Path, tuple[Result, ...]]]:
    """Each file with its results, in the order in which files end; `jobs` processes and threads.

    The items of all files wait in one line: a file of many items does not keep one thread at work
    while the others have nothing left. What is not begun is left out when the caller stops.
    """
    ended: SimpleQueue[tuple[Path, Future[Any]]] = SimpleQueue()
    begun: dict[Path, list[Future[Result]]] = {}
    missing: dict[Path, int] = {}
    unfinished = set(files)

    def begin(pool: Executor, step: Callable[[Any], Any], given: object, file: Path) -> Future[Any]:
        future = pool.submit(step, given)
        future.add_done_callback(lambda done: ended.put((file, done)))
        return future

    with (
        executor(jobs) as readers,
        ThreadPoolExecutor(jobs) as workers,
    ):
        try:
            for file in files:
                begin(readers, read, file, file)
            while unfinished:
                file, future = ended.get()
                if file not in begun:
                    begun[file] = [begin(workers, work, item, file) for item in future.result()]
                    missing[file] = len(begun[file])
                else:
                    missing[file] -= 1
                if not missing[file]:
                    unfinished.discard(file)
                    yield file, tuple(result.result() for result in begun.pop(file))
        finally:
            readers.shutdown(wait=False, cancel_futures=True)
            workers.shutdown(wait=False, cancel_futures=True)
