"""How long each named question takes, on a knowledge base and on one so many times as large.

    .venv/bin/tilelore extract default --kb KB
    .venv/bin/python -m benchmarks.queries.run --kb KB [--times 20]

The larger one is an index made from the same graphs under fresh digests, each a kernel of its own.
Questions about a kernel, an operation or an axis are asked about one that is there. Median and
slowest of the repetitions, after one to warm up. Writes results.json and table.md beside this file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from kb.questions import QUESTIONS, prepare
from kb.store import LocalStore, open_store
from kb.store_ask import direct_answer, kernel_names
from kb.store_files import Folder

HERE = Path(__file__).parent
SMALL_LIMIT_MS = 100
LARGE_LIMIT_MS = 300
COUNTING = frozenset(("alternatives", "similar_kernels"))
"""Questions about one kernel that count over all kernels."""

LOOK_UPS = COUNTING.symmetric_difference(
    name for name, asked in QUESTIONS.items() if any(p.kind == "kernel" for p in asked.parameters)
)
"""Questions about one kernel alone, which must not grow with the graph."""

ABOUT = {"operation": "attention", "axis": "softmax_scheme"}
"""What questions about an operation or an axis are asked about."""

BATCH = 2_000
_TAIL = re.compile(rb"/[0-9a-f]{16}(?=[/>])")


def bindings(name: str, kernel: str) -> dict[str, str]:
    """What each parameter without a default is asked about, where it is a kind of thing here."""
    about = {"kernel": kernel, **ABOUT}
    return {
        parameter.name: about[parameter.kind]
        for parameter in QUESTIONS[name].parameters
        if not parameter.default and parameter.kind in about
    }


def timed(index: ox.Store, kernel: str, repeat: int) -> dict[str, dict[str, float]]:
    """Milliseconds of every question, its rows, and how often it was asked."""
    found = {}
    for name in QUESTIONS:
        spent, busy = [], []
        rows = 0
        for _ in range(repeat + 1):
            began, worked = time.perf_counter(), time.process_time()
            text = prepare(
                QUESTIONS,
                name,
                bindings(name, kernel),
                lambda asked: kernel_names(lambda sparql: direct_answer(index, sparql), asked),
            )
            answer = direct_answer(index, text)
            spent.append((time.perf_counter() - began) * 1000)
            busy.append((time.process_time() - worked) * 1000)
            rows = len(answer)  # type: ignore[arg-type]
        found[name] = {
            "median_ms": round(statistics.median(spent[1:]), 1),
            "cpu_ms": round(statistics.median(busy[1:]), 1),
            "slowest_ms": round(max(spent[1:]), 1),
            "first_ms": round(spent[0], 1),
            "rows": rows,
        }
    return found


def replicated(folder: Folder, copies: int, texts: list[Path]) -> Iterator[bytes]:
    """The texts of all graphs, so many times, each time under another digest."""
    for copy in range(copies):
        for path in texts:
            digest = hashlib.sha256(f"{path.stem} {copy}".encode()).hexdigest()[:16].encode()
            yield _TAIL.sub(b"/" + digest, path.read_bytes())


def enlarged(source: LocalStore, copies: int, at: Path) -> ox.Store:
    """An index with the vocabulary and all graphs `copies` times."""
    index = ox.Store(str(at))
    vocabulary = ox.NamedNode("https://w3id.org/tilelore/graph/vocabulary")
    index.bulk_extend(source.index.quads_for_pattern(None, None, None, vocabulary))
    texts = [*source.folder.kernel_digests().values()]
    batch: list[bytes] = []
    for text in replicated(source.folder, copies, texts):
        batch.append(text)
        if len(batch) == BATCH:
            index.bulk_load(b"".join(batch), format=ox.RdfFormat.N_QUADS)
            batch = []
    index.bulk_load(b"".join(batch), format=ox.RdfFormat.N_QUADS)
    index.optimize()
    return index


def limit(name: str, large: bool) -> int | None:
    """Milliseconds that a question may take; only look-ups have a limit on the large graph."""
    if not large:
        return SMALL_LIMIT_MS
    return LARGE_LIMIT_MS if name in LOOK_UPS else None


def table(results: Mapping[str, Any]) -> str:
    """The times for people."""
    small, large = results["small"], results["large"]
    rows = [
        f"| question | rows | {small['quads']:,} quads: ms | {large['quads']:,} quads: ms |",
        "|---|---:|---:|---:|",
    ]
    for name, row in small["questions"].items():
        mark = " (look-up)" if name in LOOK_UPS else ""
        other = large["questions"][name]["median_ms"] if large["questions"] else ""
        rows.append(f"| {name}{mark} | {row['rows']} | {row['median_ms']} | {other} |")
    over = ", ".join(results["over"]) or "none"
    return "\n".join([*rows, "", f"Over the limit: {over}.", ""])


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kb", default=None)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--kernel", default="", help="look-ups ask about it; default: the first")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--scratch", type=Path, default=None, help="folder for the large index")
    options = parser.parse_args()
    store = open_store(options.kb, read_only=True)
    assert isinstance(store, LocalStore)
    kernels = store.kernels()
    kernel = options.kernel or max(kernels, key=lambda entry: entry.decisions).iri
    small = timed(store.index, kernel, options.repeat)
    results: dict[str, Any] = {
        "machine": {
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "pyoxigraph": ox.__version__,
        },
        "kernels": len(kernels),
        "kernel": kernel,
        "small": {"quads": len(store.index), "questions": small},
        "large": {"quads": 0, "times": options.times, "questions": {}},
    }
    if options.times > 1:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            index = enlarged(store, options.times, Path(folder) / "index")
            some = kernel_names(lambda sparql: direct_answer(index, sparql), "")
            asked = next(name.iri for name in some if name.label == kernel.split("/")[-2])
            large = timed(index, asked, options.repeat)
            results["large"] |= {"quads": len(index), "questions": large}
            del index
            shutil.rmtree(folder, ignore_errors=True)
    results["over"] = [
        f"{name} ({size}: {row['median_ms']} ms)"
        for size in ("small", "large")
        for name, row in results[size]["questions"].items()
        if (most := limit(name, size == "large")) is not None and row["median_ms"] > most
    ]
    store.close()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "table.md").write_text(table(results))


if __name__ == "__main__":
    main()
