"""How long reading and storing takes: 100, 500, 2,500 and all kernels of the default set.

    .venv/bin/python -m benchmarks.corpora.run [--sizes 100,500,2500] [--jobs 2]

Each size is a fresh process tree with an empty knowledge base and nothing kept from earlier
readings; the files are drawn with a seed. Then the same again, where nothing has changed, and
again after one module that others import was changed. Writes results.json and table.md beside this
file; run it on a machine that does nothing else. CPU seconds are of all processes together.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from api.corpora import cache_folder, default_set, fetch, pinned
from api.pool import end_with_parent
from api.read_each import read_each
from api.remember import Memory
from api.sources import source_files

HERE = Path(__file__).parent
SEED = 20261122
LIBRARIES = ("libcst", "pyoxigraph", "pyshacl", "pyshifty", "rdflib")
CHANGED = "liger-kernel"
"""The package that is copied, read, changed in one module and read again."""


FILES_PER_KERNEL = 0.72
"""So many files are drawn for each kernel that is wanted."""


def read_and_store(names: Sequence[str], wanted: int, kb: str, jobs: int) -> dict[str, Any]:
    """Read files of the corpora that hold about `wanted` kernels (0: all) and store what they hold;
    what it took."""
    started = time.monotonic()
    files = list(source_files(names))
    random.Random(SEED).shuffle(files)
    if wanted:
        del files[round(wanted * FILES_PER_KERNEL) :]
    counts = {"files": 0, "again": 0, "kernels": 0, "decisions": 0, "findings": 0, "refused": 0}
    errors: list[str] = []
    with Memory(kb) as memory:
        for _, reading in read_each(files, jobs=jobs):
            memory.add(reading)
            counts["files"] += 1
            counts["again"] += reading.again
            counts["kernels"] += len(reading.kernels)
            counts["decisions"] += sum(kernel.decisions for kernel in reading.kernels)
            counts["findings"] += sum(kernel.findings for kernel in reading.kernels)
            counts["refused"] += bool(reading.refused)
            errors += [
                f"{reading.source.path}: {note.message}"
                for note in reading.diagnostics
                if note.severity.value == "error"
            ]
        memory.done()
    return {**counts, "errors": errors, **_cost(started)}


def _cost(started: float) -> dict[str, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    return {
        "wall_s": round(time.monotonic() - started, 2),
        "cpu_s": round(cpu, 2),
        "peak_rss_mib": round(own.ru_maxrss / 1024),
        "peak_rss_of_a_reader_mib": round(others.ru_maxrss / 1024),
    }


def _child(sender: Any, arguments: tuple[Any, ...]) -> None:
    end_with_parent()
    sender.send(read_and_store(*arguments))


def in_fresh_process(cache: Path, *arguments: Any) -> dict[str, Any]:
    """`read_and_store` with its own cache of readings; the corpora stay where they are."""
    os.environ["TILELORE_CACHE"] = str(cache)
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, arguments))
    process.start()
    sender.close()
    try:
        found: dict[str, Any] = receiver.recv()
    finally:
        process.join()
    return found


def measure(wanted: int, jobs: int, corpora: Path) -> dict[str, Any]:
    """One size: read everything, then read nothing again."""
    with tempfile.TemporaryDirectory() as folder:
        cache, kb = Path(folder) / "cache", str(Path(folder) / "kb")
        cache.mkdir()
        (cache / "corpora").symlink_to(corpora)
        arguments = ([*default_set()], wanted, kb, jobs)
        first = in_fresh_process(cache, *arguments)
        second = in_fresh_process(cache, *arguments)
        size = sum(p.stat().st_size for p in Path(kb).rglob("*") if p.is_file())
        return {"wanted": wanted or "all", "first": first, "unchanged": second, "kb_bytes": size}


def measure_change(jobs: int, corpora: Path) -> dict[str, Any]:
    """A copy of one package: all of it, nothing changed, one file changed, one module changed."""
    source = fetch(pinned()[CHANGED]).folder
    with tempfile.TemporaryDirectory() as folder:
        cache, kb, tree = (Path(folder) / name for name in ("cache", "kb", "tree"))
        cache.mkdir()
        shutil.copytree(source, tree)
        steps: dict[str, str | None] = {"all": None, "nothing": None}
        steps |= {
            "one file": "liger_kernel/ops/layer_norm.py",
            "a module": "liger_kernel/ops/utils.py",
        }
        found = {}
        for name, path in steps.items():
            if path is not None:
                with (tree / path).open("a") as stream:
                    stream.write(f"\n# changed for the step {name}\n")
            found[name] = {
                "changed": path,
                **in_fresh_process(cache, [str(tree)], 0, str(kb), jobs),
            }
        return found


def table(results: dict[str, Any]) -> str:
    """The results for people."""
    rows = [
        "| kernels | files | decisions | wall s | CPU s | CPU ms per kernel | peak MiB, writer | "
        "peak MiB, a reader | again, unchanged: wall s | files read |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for size in results["sizes"]:
        first, second = size["first"], size["unchanged"]
        cells = (
            first["kernels"], first["files"], first["decisions"], first["wall_s"], first["cpu_s"],
            round(1000 * first["cpu_s"] / max(first["kernels"], 1)), first["peak_rss_mib"],
            first["peak_rss_of_a_reader_mib"], second["wall_s"], second["again"],
        )  # fmt: skip
        rows.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    changes = ", ".join(
        f"{name}: {step['again']} of {step['files']} files read"
        for name, step in results["change"].items()
    )
    machine = results["machine"]
    return "\n".join(
        [*rows, "", f"What changed in a copy of {CHANGED}: {changes}.",
         f"{machine['cores']} cores, load {machine['load']} at the start, Python "
         f"{machine['python']}, {results['jobs']} readers, seed {SEED}.", ""]
    )  # fmt: skip


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100,500,2500,0", help="kernels; 0: all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    for requirement in default_set():
        fetch(requirement)
    corpora = cache_folder().resolve() / "corpora"
    results: dict[str, Any] = {
        "machine": {
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "python": platform.python_version(),
            "libraries": {name: version(name) for name in LIBRARIES},
        },
        "seed": SEED,
        "jobs": options.jobs,
        "corpora": sorted(default_set()),
        "sizes": [],
    }
    for wanted in (int(size) for size in options.sizes.split(",") if size):
        results["sizes"].append(measure(wanted, options.jobs, corpora))
        sys.stderr.write(json.dumps(results["sizes"][-1]["first"])[:400] + "\n")
    results["change"] = measure_change(options.jobs, corpora)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "table.md").write_text(table(results))


if __name__ == "__main__":
    main()
