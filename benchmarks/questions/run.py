"""Answers to the questions across corpora, from a whole store, for the README.

    .venv/bin/tilelore extract default --kb KB
    .venv/bin/python -m benchmarks.questions.run --kb KB

Each row of the table is a named question of kb/queries with its parameters; the answer is counted
or quoted from its rows. Writes results.json (with all rows) and table.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kb.results import Rows
from kb.store import Store, open_store

HERE = Path(__file__).parent
SHOWN = 8
"""Names or values that an answer quotes."""

PACKAGES = """
PREFIX tl: <https://w3id.org/tilelore/ns#>
SELECT DISTINCT ?package WHERE { GRAPH ?g { ?source tl:package ?package } } ORDER BY ?package
"""

Answer = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in words, the named question that answers it, and how its rows become a line."""

    words: str
    name: str
    line: Callable[[Answer], str]
    parameters: Mapping[str, str] = field(default_factory=dict)


def _named(rows: Answer) -> str:
    """How many kernels, and the first of them."""
    kernels = {str(row["kernel"]): str(row["label"]) for row in rows}
    packages = Counter(_package(iri) for iri in kernels)
    told = ", ".join(f"{name} {count}" for name, count in packages.most_common(SHOWN))
    first = ", ".join(f"`{label}`" for label in list(dict.fromkeys(kernels.values()))[:SHOWN])
    return f"{len(kernels)} kernels ({told}): {first}" if kernels else "none"


def _package(iri: str) -> str:
    return re.split(r"==|%3D", iri.partition("/kernel/")[2].partition("/")[0], maxsplit=1)[0]


def _values(rows: Answer) -> str:
    """Each value with its kernels, out of all."""
    told = ", ".join(f"{row['value']}: {row['kernels']}" for row in rows[:SHOWN])
    return f"of {rows[0]['of']} attention kernels: {told}" if rows else "none"


def _staged(rows: Answer) -> str:
    pairs = Counter(
        f"{row['first']} {row['first_depth']} / {row['second']} {row['second_depth']}"
        for row in rows
    )
    told = "; ".join(f"{pair} ({count})" for pair, count in pairs.most_common(4))
    return f"{_named(rows)}; {told}" if rows else "none"


def _tiles(rows: Answer) -> str:
    """Per condition on target and sizes: how many kernels, and the span of each axis."""
    spans: dict[str, dict[str, tuple[int, int]]] = {}
    kernels: dict[str, set[str]] = {}
    for row in rows:
        case = str(row["case"]) or "always"
        low, high = int(float(row["smallest"])), int(float(row["largest"]))
        old = spans.setdefault(case, {}).get(str(row["axis"]), (low, high))
        spans[case][str(row["axis"])] = (min(old[0], low), max(old[1], high))
        kernels.setdefault(case, set()).add(str(row["label"]))
    told = []
    for case, axes in sorted(spans.items(), key=lambda item: -len(kernels[item[0]]))[:SHOWN]:
        sizes = ", ".join(f"{axis} {low}-{high}" for axis, (low, high) in sorted(axes.items())[:4])
        told.append(f"{case} ({len(kernels[case])} kernels): {sizes}")
    return "<br>".join(told) if told else "none"


def _shared(rows: Answer) -> str:
    """How many values on how many axes, and the most frequent."""
    axes = {str(row["axis"]) for row in rows}
    often = sorted(rows, key=lambda row: -int(row["first_kernels"]))[:SHOWN]
    told = ", ".join(
        f"{str(row['axis']).rpartition('/')[2]} = {row['value']} "
        f"({row['first_kernels']} and {row['second_kernels']})"
        for row in often
    )
    return f"{len(rows)} values on {len(axes)} axes: {told}" if rows else "none"


ASKED = (
    Asked("How many attention kernels use online softmax?", "values_of_operation", _values),
    Asked("Which fold the scale after the maximum?", "scale_after_row_max", _named),
    Asked("Which accumulate below 32 bits?", "sums_below_fp32", _named),
    Asked("Who stages K and V differently?", "staged_differently", _staged),
    Asked(
        "What tile sizes do people search per target and head dim?",
        "tile_sizes_per_target",
        _tiles,
        {"operation": "attention"},
    ),
    Asked(
        "Which decisions of LayerNorm kernels also occur in attention?",
        "values_shared_by_operations",
        _shared,
    ),
)


def ask(store: Store, asked: Asked) -> dict[str, Any]:
    """The rows of one question and its line."""
    answer = store.ask(asked.name, **asked.parameters)
    rows = [dict(row) for row in answer] if isinstance(answer, Rows) else []
    return {
        "question": asked.words,
        "name": asked.name,
        "parameters": dict(asked.parameters),
        "answer": asked.line(rows),
        "rows": rows,
    }


def table(results: Mapping[str, Any]) -> str:
    """The answers for people."""
    rows = ["| question | answer | `tilelore query` |", "|---|---|---|"]
    for one in results["questions"]:
        command = " ".join([one["name"], *(f"-p {k}={v}" for k, v in one["parameters"].items())])
        answer = str(one["answer"]).replace("|", "\\|")
        rows.append(f"| {one['question']} | {answer} | `{command}` |")
    stats = results["store"]
    total = f"From {stats['kernels']} kernels with {stats['decisions']} decisions"
    return "\n".join([*rows, "", f"{total} ({', '.join(results['packages'])}).", ""])


def main() -> None:
    """Ask and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kb", default=None)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    with open_store(options.kb, read_only=True) as store:
        stats = store.stats()
        found = store.query(PACKAGES)
        results: dict[str, Any] = {
            "machine": {"platform": platform.platform(), "python": platform.python_version()},
            "store": {"kernels": stats.kernels, "decisions": stats.decisions, "quads": stats.quads},
            "packages": [str(row["package"]) for row in found] if isinstance(found, Rows) else [],
            "questions": [ask(store, asked) for asked in ASKED],
        }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results, indent=1, default=str) + "\n")
    (options.out / "table.md").write_text(table(results))


if __name__ == "__main__":
    main()
