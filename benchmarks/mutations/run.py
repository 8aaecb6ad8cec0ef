"""2,000 broken files, read: nothing may crash and nothing may hang.

    .venv/bin/python -m benchmarks.mutations.run [--count 2000] [--jobs 2]

Files are drawn from the default set, Python and CUDA C++ alike, with a seed; each is broken in
one of the ways of `mutate`. A broken file may well be refused, with a place and a hint: that is no
crash. A crash is any exception that is not an InputError, an ended process, or more time than the
limit. Writes results.json and table.md beside this file; a crash can be made again from its seed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from api.corpora import DEFAULT_SET, cache_folder, default_set
from api.extract import extract_or_explain
from api.pool import Work, each
from api.reading import Reading, reading_of
from api.sources import SourceFile, source_files
from benchmarks.mutations.mutate import MUTATIONS

HERE = Path(__file__).parent
SEED = 20261122
MAX_BYTES = 200_000
"""Larger files are left out: it is the number of ways to break that counts."""

SECONDS = 60.0
WRITTEN_EVERY = 100
"""Files after which what was found is written, so that a run that is ended leaves its part."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One broken file: which, how, and the seed that breaks it so."""

    file: SourceFile
    way: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What reading it gave. `crash` is empty when nothing went wrong."""

    path: str
    package: str
    way: str
    seed: int
    kernels: int = 0
    refused: bool = False
    seconds: float = 0.0
    crash: str = ""


def drawn(count: int, files: Sequence[SourceFile], seed: int = SEED) -> list[Mutation]:
    """Files and ways to break them, half of them Python; the same seed draws the same."""
    rng = Random(seed)
    kinds = {kind: [f for f in files if (f.path.suffix == ".py") is kind] for kind in (True, False)}
    ways = sorted(MUTATIONS)
    found = []
    for number in range(count):
        pool = kinds[number % 2 == 0] or files
        found.append(Mutation(rng.choice(pool), rng.choice(ways), rng.randrange(2**32)))
    return found


def outcome(mutation: Mutation) -> Outcome:
    """Break the file, read the copy in the place of the original, encode and check it."""
    started = time.monotonic()
    try:
        text = mutation.file.path.read_text(encoding="utf-8", errors="replace")
        broken = MUTATIONS[mutation.way](text, Random(mutation.seed))
        reading = read_broken(mutation.file, broken, mutation.seed)
    except Exception:
        return failed(mutation, traceback.format_exc(limit=-4))
    return replace(
        failed(mutation, f"graph refused: {reading.refused}" if reading.refused else ""),
        kernels=len(reading.kernels),
        refused=any(note.severity.value == "error" for note in reading.diagnostics),
        seconds=round(time.monotonic() - started, 2),
    )


def read_broken(file: SourceFile, text: str, seed: int) -> Reading:
    """Read a broken text in the place of a file: beside it, so that what it imports is found."""
    path = file.path.with_name(f"{file.path.stem}_{seed}{file.path.suffix}")
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        return reading_of(extract_or_explain(replace(file, path=path)))
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def copies(files: Sequence[SourceFile]) -> Iterator[list[SourceFile]]:
    """The files in copies of their packages (hard links) that broken files may be put into."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".mutations-") as folder:
        roots: dict[Path, Path] = {}
        for file in files:
            if file.root not in roots:
                roots[file.root] = Path(folder) / str(len(roots))
                shutil.copytree(file.root, roots[file.root], copy_function=os.link)
        yield [
            replace(f, root=roots[f.root], path=roots[f.root] / f.path.relative_to(f.root))
            for f in files
        ]


def failed(mutation: Mutation, why: str) -> Outcome:
    """What went wrong: an exception, an ended process, or too much time."""
    file = mutation.file
    return Outcome(
        path=file.shown,
        package=file.package or "",
        way=mutation.way,
        seed=mutation.seed,
        crash=why,
    )


def table(results: dict[str, Any]) -> str:
    """The results for people."""
    rows = [
        "| way | files | refused with a reason | kernels read | crashes |",
        "|---|---:|---:|---:|---:|",
    ]
    for way, row in results["ways"].items():
        rows.append(
            f"| {way} | {row['files']} | {row['refused']} | {row['kernels']} | {row['crashes']} |"
        )
    total = (
        f"{results['count']} files of {len(results['corpora'])} corpora, seed {results['seed']}: "
    )
    total += f"{len(results['crashes'])} crashes; the slowest took {results['slowest_s']} s."
    return "\n".join([*rows, "", total, ""])


def main() -> None:
    """Break, read and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    files = source_files([DEFAULT_SET])
    small = [file for file in files if file.path.stat().st_size <= MAX_BYTES]
    work = Work(outcome, failed, SECONDS)
    options.out.mkdir(parents=True, exist_ok=True)
    found: list[Outcome] = []
    with copies(small) as places:
        mutations = drawn(options.count, places, options.seed)
        for _, result in each(work, mutations, jobs=options.jobs):
            found.append(result)
            if len(found) % WRITTEN_EVERY == 0 or len(found) == len(mutations):
                write(options.out, report(found, options.seed))


def report(found: Sequence[Outcome], seed: int) -> dict[str, Any]:
    """The results so far."""
    ways = {}
    for way in sorted(MUTATIONS):
        rows = [row for row in found if row.way == way]
        counted = Counter(
            files=len(rows),
            refused=sum(row.refused for row in rows),
            kernels=sum(row.kernels for row in rows),
            crashes=sum(bool(row.crash) for row in rows),
        )
        ways[way] = dict(counted)
    return {
        "machine": {"platform": platform.platform(), "python": platform.python_version()},
        "seed": seed,
        "count": len(found),
        "corpora": sorted(default_set()),
        "suffixes": dict(Counter(Path(row.path).suffix for row in found)),
        "ways": ways,
        "slowest_s": max((row.seconds for row in found), default=0.0),
        "crashes": [asdict(row) for row in found if row.crash],
    }


def write(folder: Path, results: dict[str, Any]) -> None:
    """The results as JSON and as a table."""
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "table.md").write_text(table(results))


if __name__ == "__main__":
    main()
