"""Many files read in parallel, each to its reading; what is as it was is not read again."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial

from api.extract import extract_or_explain, unread
from api.including import look_anew
from api.lookups import Lookups
from api.pool import Work, each
from api.reading import Reading, reading_of
from api.reading_cache import ReadingCache
from api.sources import SourceFile


def read_each(
    files: Sequence[SourceFile], *, jobs: int = 0, again: bool = False
) -> Generator[tuple[int, Reading]]:
    """Position and reading of every file, as they come, by `jobs` processes (0: one per core).

    A file that is as it was, with everything that was looked at for it, is not read again, unless
    `again`. What fails has diagnostics; a file that ends its process or takes too long, too.
    Large files come first: begun last, they would keep the other processes waiting.
    """
    look_anew()
    cache = ReadingCache.of_this_version()
    work = Work(partial(_read, cache, again), _failed)
    order = sorted(range(len(files)), key=lambda index: -_bytes(files[index]))
    for place, reading in each(work, [files[index] for index in order], jobs=jobs):
        yield order[place], reading
    cache.prune()


def _bytes(file: SourceFile) -> int:
    try:
        return file.path.stat().st_size
    except OSError:
        return 0


def _read(cache: ReadingCache, again: bool, file: SourceFile) -> Reading:
    kept = None if again else cache.get(file)
    if kept is not None:
        return kept
    lookups = Lookups(file.root)
    reading = reading_of(extract_or_explain(file, lookups))
    cache.put(file, lookups, reading)
    return reading


def _failed(file: SourceFile, why: str) -> Reading:
    return reading_of(unread(file, why))
