"""How long each named question takes, on a knowledge base and on one so many times as large.

    .venv/bin/tilelore extract default --kb KB
    .venv/bin/python -m benchmarks.queries.run --kb KB [--times 20]

The larger one is an index made from so many of the same graphs under fresh digests, each a kernel
of its own; look-ups are asked of it. Questions about a kernel are asked about the one with the most
to tell among those whose operation is known, questions about an operation or an axis about one that
is there. Median and slowest of the repetitions, after one to warm up, in wall time and in CPU time:
a question runs in one thread, so the second is what it takes where nothing else runs; it is held
against the limits. Writes results.json and table.md beside this file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from kb.questions import QUESTIONS, prepare
from kb.store import LocalStore, open_store
from kb.store_ask import direct_answer, kernel_names
from kb.store_choices import counted_anew

HERE = Path(__file__).parent
SMALL_LIMIT_MS = 100
LARGE_LIMIT_MS = 300
LOOK_UPS = frozenset(
    name for name, asked in QUESTIONS.items() if any(p.kind == "kernel" for p in asked.parameters)
) - {"similar_kernels"}
"""Questions about one kernel, which must not grow with the graph; the one left out compares it with
all others."""

ABOUT = {"operation": "attention", "axis": "softmax_scheme"}
"""What questions about an operation or an axis are asked about."""

BATCH = 500


def bindings(name: str, kernel: str) -> dict[str, str]:
    """What is asked about: the kernel, else each thing without a default that is a kind here."""
    asked = QUESTIONS[name].parameters
    if any(parameter.kind == "kernel" for parameter in asked):
        return {"kernel": kernel}
    return {p.name: ABOUT[p.kind] for p in asked if not p.default and p.kind in ABOUT}


def timed(
    index: ox.Store, kernel: str, repeat: int, names: Iterable[str] = tuple(QUESTIONS)
) -> dict[str, dict[str, float]]:
    """Milliseconds of every question, its rows, and how often it was asked."""
    found = {}
    for name in names:
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


def replicated(copies: int, texts: Sequence[Path]) -> Iterator[bytes]:
    """The texts of all graphs, so many times, each time under another digest."""
    for copy in range(copies):
        for path in texts:
            text = path.read_bytes()
            graph = text[: text.index(b"> .\n")].rpartition(b"/")[2]
            digest = hashlib.sha256(f"{path.stem} {copy}".encode()).hexdigest()[: len(graph)]
            yield text.replace(b"/" + graph, b"/" + digest.encode())


def enlarged(source: LocalStore, copies: int, texts: Sequence[Path], at: Path) -> ox.Store:
    """An index with the vocabulary, these graphs `copies` times, and what kernels chose counted."""
    index = ox.Store(str(at))
    vocabulary = ox.NamedNode("https://w3id.org/tilelore/graph/vocabulary")
    index.bulk_extend(source.index.quads_for_pattern(None, None, None, vocabulary))
    waiting = replicated(copies, texts)
    while batch := b"".join(islice(waiting, BATCH)):
        index.bulk_load(batch, format=ox.RdfFormat.N_QUADS, lenient=True)
    index.update(counted_anew())
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
        "| question | rows | ms | of which CPU | ms, large graph | of which CPU |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, row in small["questions"].items():
        mark = " (look-up)" if name in LOOK_UPS else ""
        other = large["questions"].get(name, {"median_ms": "", "cpu_ms": ""})
        times = (row["median_ms"], row["cpu_ms"], other["median_ms"], other["cpu_ms"])
        rows.append(f"| {name}{mark} | {row['rows']} | {' | '.join(map(str, times))} |")
    over = ", ".join(results["over"]) or "none"
    sizes = f"{results['kernels']:,} kernels, {small['quads']:,} quads"
    if large["questions"]:
        sizes += f"; large: {large['kernels']:,} kernels, {large['quads']:,} quads"
    machine = results["machine"]
    sizes += f"; {machine['cores']} cores, load {machine['load']}"
    total = f"{sizes}. Over the limit in CPU time ({SMALL_LIMIT_MS} ms; a look-up in the large "
    return "\n".join([*rows, "", f"{total}graph {LARGE_LIMIT_MS} ms): {over}.", ""])


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kb", default=None)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--most", type=int, default=2_500, help="kernels that are replicated")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--scratch", type=Path, default=None, help="folder for the large index")
    options = parser.parse_args()
    store = open_store(options.kb, read_only=True)
    assert isinstance(store, LocalStore)
    kernels = store.kernels()
    kernel = max(
        (entry for entry in kernels if entry.operation),
        key=lambda entry: entry.decisions + entry.findings,
    )
    small = timed(store.index, kernel.iri, options.repeat)
    results: dict[str, Any] = {
        "machine": {
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "pyoxigraph": ox.__version__,
        },
        "kernels": len(kernels),
        "kernel": kernel.iri,
        "small": {"quads": len(store.index), "questions": small},
        "large": {"kernels": 0, "quads": 0, "times": options.times, "questions": {}},
    }
    if options.times > 1:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            files = store.folder.kernel_digests()
            first = files.pop(store.content_digest(kernel.graph))
            texts = [first, *files.values()][: options.most]
            began = time.process_time()
            index = enlarged(store, options.times, texts, Path(folder) / "index")
            made = round(time.process_time() - began)
            some = kernel_names(lambda sparql: direct_answer(index, sparql), kernel.label)
            tail = kernel.id.rpartition("/")[0]
            asked = next(name.iri for name in some if name.id.startswith(tail))
            results["large"] |= {
                "kernels": len(texts) * options.times,
                "quads": len(index),
                "made_cpu_s": made,
                "questions": timed(index, asked, options.repeat, sorted(LOOK_UPS)),
            }
            del index
            shutil.rmtree(folder, ignore_errors=True)
    results["over"] = [
        f"{name} ({size}: {row['cpu_ms']} ms)"
        for size in ("small", "large")
        for name, row in results[size]["questions"].items()
        if (most := limit(name, size == "large")) is not None and row["cpu_ms"] > most
    ]
    store.close()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "table.md").write_text(table(results))


if __name__ == "__main__":
    main()
