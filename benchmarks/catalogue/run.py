"""The catalogue against code: cases per dialect, decisions in the corpora, example places hit.

Usage: python -m benchmarks.catalogue.run [PACKAGE …] [--kb KB] [--out FOLDER]

Reads the pinned packages (the default set when none is named), or takes what a knowledge base has
of them, counts for every pattern the kernels of each dialect in which it is seen, checks which
example places of the ontology a decision of the pattern overlaps, and lists axis values that
neither a case nor a kernel gives. Nothing is imported or run.
Writes results.json and table.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api.corpora import default_set, pinned
from api.extract import extract_many
from api.sources import source_files
from benchmarks.catalogue.coverage import DIALECTS, Coverage, coverage, gaps
from benchmarks.host.run import OURS, VENDORS
from extractors.host.cases import CASES
from extractors.patterns.registry import patterns as recognisers
from kb.evidence import Lines
from kb.graph.names import last_text
from kb.graph.vocabulary import PatternEntry, axes, patterns
from kb.results import Rows
from kb.store import LocalStore, open_store

HERE = Path(__file__).resolve().parent
KERNEL = ("kernel", "package", "dialect", "path")
DECIDED = """
PREFIX tl: <https://w3id.org/tilelore/ns#>
SELECT ?kernel ?package ?dialect ?path ?decision ?pattern ?axis ?value ?file ?start ?end WHERE {
  GRAPH ?g {
    ?kernel tl:dialect ?dialect ; tl:hasSource ?source ; tl:hasDecision ?decision .
    ?source tl:path ?path ; tl:package ?package .
    ?decision tl:seenBy ?pattern ; tl:onAxis ?axis ; tl:value ?value ; tl:evidence ?span .
    ?span tl:startLine ?start ; tl:endLine ?end .
    OPTIONAL { ?decision tl:file ?file }
  }
}
"""
_PLACE = re.compile(r"(?P<file>[^:]+):(?P<lines>[\d,-]+)$")


@dataclass
class Seen:
    """What the corpora show: kernels by pattern and dialect, values by axis, places by pattern."""

    kernels: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_dialect: Counter[str] = field(default_factory=Counter)
    values: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    places: defaultdict[tuple[str, str], set[Lines]] = field(
        default_factory=lambda: defaultdict(set)
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--kb", help="take what was read from here")
    parser.add_argument("--out", type=Path, default=HERE)
    given = parser.parse_args(argv)
    packages = given.packages or [row.partition("==")[0] for row in default_set()]
    started = time.perf_counter()
    seen = Seen()
    if given.kb:
        packages = look_up(given.kb, packages, seen)
    for package in () if given.kb else packages:
        look(package, seen)
        print(f"{package}: {dict(seen.by_dialect)} kernels so far", file=sys.stderr, flush=True)
    report = _report(seen, [pinned().get(name, name) for name in packages])
    report["seconds"] = round(time.perf_counter() - started, 1)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "results.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (given.out / "table.md").write_text(table(report), encoding="utf-8")
    print(summary(report))
    return 0


def look(package: str, seen: Seen) -> None:
    """Read one package and add what its kernels decide."""
    names = {f: f.path.relative_to(f.root).as_posix() for f in source_files([package])}
    files = [f for f, name in names.items() if VENDORS not in name or OURS in name]
    for file, found in zip(files, extract_many(files), strict=True):
        name = names[file]
        for kernel in found.kernels:
            dialect = kernel.kernel.dialect
            seen.by_dialect[dialect] += 1
            for pattern in {decision.pattern for decision in kernel.decisions}:
                seen.kernels[pattern, dialect] += 1
            for decision in kernel.decisions:
                seen.values[decision.axis][decision.value] += 1
                if decision.file is None:
                    seen.places[decision.pattern, name].update(decision.lines)


def look_up(location: str, packages: Sequence[str], seen: Seen) -> list[str]:
    """Add what the kernels of these packages decide by a knowledge base; the packages it has."""
    wanted = {pinned()[name]: name for name in packages}
    read: set[str] = set()
    kernels: set[object] = set()
    decided: set[object] = set()
    with open_store(location, read_only=True) as store:
        assert isinstance(store, LocalStore)
        told = store.direct(DECIDED)
    assert isinstance(told, Rows)
    for row in told:
        kernel, package, dialect, path = (str(row[k]) for k in KERNEL)
        if package not in wanted or (VENDORS in path and OURS not in path):
            continue
        read.add(wanted[package])
        pattern, axis = (last_text(str(row[k])) for k in ("pattern", "axis"))
        seen.by_dialect[dialect] += kernel not in kernels
        seen.kernels[pattern, dialect] += (kernel, pattern) not in kernels
        kernels |= {kernel, (kernel, pattern)}
        seen.values[axis][str(row["value"])] += row["decision"] not in decided
        decided.add(row["decision"])
        if row["file"] is None:
            seen.places[pattern, path].add((int(row["start"] or 0), int(row["end"] or 0)))
    return [name for name in packages if name in read]


def examples(entry: PatternEntry, seen: Seen) -> Iterator[tuple[str, bool]]:
    """Example places of a pattern that lie in files that were read, and whether one is hit."""
    files = {name for _, name in seen.places}
    for place in entry.examples:
        match = _PLACE.search(place)
        if match is None or match["file"] not in files:
            continue
        wanted = [_lines(part) for part in match["lines"].split(",")]
        ours = seen.places.get((entry.name, match["file"]), set())
        yield place, any(a[0] <= b[1] and b[0] <= a[1] for a in wanted for b in ours)


def _lines(text: str) -> Lines:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _report(seen: Seen, read: list[str]) -> dict[str, Any]:
    counts = coverage()
    rows = {
        name: _row(entry, counts, seen) for name, entry in sorted(patterns().items()) if entry.axis
    }
    hits = [hit for row in rows.values() for hit in row["examples"].values()]
    return {
        "python": platform.python_version(),
        "read": read,
        "kernels": dict(seen.by_dialect),
        "patterns": rows,
        "examples_hit": sum(hits),
        "examples": len(hits),
        "values": {axis: _values(axis, seen) for axis in sorted(axes())},
    }


def _row(entry: PatternEntry, counts: Coverage, seen: Seen) -> dict[str, Any]:
    own = counts[entry.name]
    return {
        "axis": entry.axis,
        "occurs_in": list(entry.dialects),
        "excused": dict(entry.unseen),
        "cases": {dialect: own[dialect].cases for dialect in DIALECTS},
        "near_misses": {dialect: own[dialect].misses for dialect in DIALECTS},
        "lacks": list(gaps(entry, own)),
        "kernels": {dialect: seen.kernels[entry.name, dialect] for dialect in DIALECTS},
        "examples": dict(examples(entry, seen)),
    }


def _values(axis: str, seen: Seen) -> dict[str, Any]:
    """Values of an axis: told by cases or kernels, named only, and told without being named."""
    told = {case.value for one in recognisers() if one.axis == axis for case in one.matches}
    told |= {case.value for case in CASES if patterns()[case.pattern].axis == axis}
    told |= set(seen.values[axis])
    named = axes()[axis].values
    return {
        "told": [value for value in named if value in told],
        "never_told": [value for value in named if value not in told],
        "told_beyond": sorted(value for value in told if value and value not in named),
    }


def summary(report: dict[str, Any]) -> str:
    """Three lines for a person."""
    rows = report["patterns"].values()
    whole = [row for row in rows if not row["lacks"]]
    fired = [row for row in rows if any(row["kernels"].values())]
    values = report["values"].values()
    told, named = (sum(len(v[k]) for v in values) for k in ("told", "never_told"))
    return (
        f"{len(rows)} patterns, {len(whole)} with a case and a near miss wherever they occur, "
        f"{len(fired)} seen in the corpora\n"
        f"{report['examples_hit']} of {report['examples']} example places hit\n"
        f"{told} of {told + named} values of axes told by a case or a kernel"
    )


def table(report: dict[str, Any]) -> str:
    """Counts by dialect; then every pattern with its cases, near misses and kernels."""
    lines = [
        summary(report).replace("\n", ". ") + ".",
        "",
        *_by_dialect(report),
        "",
        f"Read: {', '.join(report['read'])}.",
        "",
        "## Kernels",
        "",
        "| pattern | axis | cuTile | Triton | CUDA | kernels cuTile | Triton | CUDA | examples |",
        "|---|---|---|---|---|---:|---:|---:|---|",
    ]
    for name, row in report["patterns"].items():
        cells = [_cell(row, dialect) for dialect in DIALECTS]
        kernels = [str(row["kernels"][dialect] or "") for dialect in DIALECTS]
        hits = row["examples"]
        shown = f"{sum(hits.values())} of {len(hits)}" if hits else ""
        lines.append(f"| {name} | {row['axis']} | {' | '.join([*cells, *kernels, shown])} |")
    excused = [
        f"- {name}, {dialect}: {why}"
        for name, row in report["patterns"].items()
        for dialect, why in row["excused"].items()
    ]
    missed = [
        f"- {name}: {place}"
        for name, row in report["patterns"].items()
        for place, hit in row["examples"].items()
        if not hit
    ]
    for title, rows in (("Excused", excused), ("Example places not hit", missed)):
        if rows:
            lines += ["", f"{title}:", "", *rows]
    return "\n".join(lines) + "\n"


def _by_dialect(report: dict[str, Any]) -> list[str]:
    """How many patterns occur, have cases, are excused and are seen, by dialect."""
    lines = [
        "| dialect | kernels read | patterns that occur | with case and near miss | excused "
        "| seen in kernels |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for dialect in DIALECTS:
        rows = [row for row in report["patterns"].values() if dialect in row["occurs_in"]]
        whole = [row for row in rows if row["cases"][dialect] and row["near_misses"][dialect]]
        excused = [row for row in rows if dialect in row["excused"]]
        fired = [row for row in report["patterns"].values() if row["kernels"][dialect]]
        kernels = report["kernels"].get(dialect, 0)
        counts = (kernels, len(rows), len(whole), len(excused), len(fired))
        lines.append(f"| {dialect} | {' | '.join(map(str, counts))} |")
    return lines


def _cell(row: dict[str, Any], dialect: str) -> str:
    """Cases / near misses where the pattern occurs; a dash where it cannot."""
    if dialect not in row["occurs_in"]:
        return "–"
    if dialect in row["excused"]:
        return "excused"
    return f"{row['cases'][dialect]} / {row['near_misses'][dialect]}"


if __name__ == "__main__":
    sys.exit(main())
