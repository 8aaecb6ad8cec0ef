"""Recall and precision of `tilelore extract` against the hand-made gold.

Usage: python benchmarks/gold/run.py --gold GOLD.yaml [--gold MORE.yaml] --corpus FOLDER
[--out FOLDER] [--only TEXT] [-v]

FOLDER holds the unpacked packages, each in a folder of its own name. What is judged is what
`tilelore extract --format json` prints for the kernel: program and host decisions together. A gold
decision counts as found when a decision on the same axis overlaps one of its line ranges. Gold
decisions marked absent (a value that was not chosen) count like the others. Precision is over the
decisions on axes that the gold of that kernel covers: the share that overlaps a gold decision of
that axis. With --out, one JSON per gold file and `table.md` are written.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from api.extract import extract_source
from api.sources import SourceFile
from kb.evidence import Decision, Lines
from kb.knowledge import KernelKnowledge, SourceKnowledge


@dataclass(frozen=True)
class Row:
    """One gold decision and whether it was found; `host` when its lines are outside the kernel."""

    package: str
    kernel: str
    axis: str
    value: str
    lines: list[Lines]
    host: bool
    found: bool
    pattern: bool | None


@dataclass(frozen=True)
class Judged:
    """A decision of ours: whether the gold covers its axis, and whether a gold decision agrees."""

    package: str
    kernel: str
    decision: Decision
    covered: bool
    agrees: bool


def ranges(text: object) -> list[Lines]:
    """Line ranges of the gold: `67, 114-118`, or a pair."""
    if isinstance(text, list):
        return [(int(text[0]), int(text[1]))]
    found: list[Lines] = []
    for part in str(text).split(","):
        first, _, last = part.strip().partition("-")
        found.append((int(first), int(last or first)))
    return found


def overlap(left: Sequence[Lines], right: Sequence[Lines]) -> bool:
    """True when two lists of ranges share a line."""
    return any(a[0] <= b[1] and b[0] <= a[1] for a in left for b in right)


class Reader:
    """Extracted files of a corpus, each read once; `seconds` per file."""

    def __init__(self, corpus: Path) -> None:
        self.corpus = corpus
        self.seconds: dict[str, float] = {}
        self._read: dict[Path, SourceKnowledge] = {}

    def kernel(self, entry: dict[str, Any]) -> KernelKnowledge | None:
        """The kernel that a gold entry speaks of; None when the package is not unpacked."""
        root = self.corpus / str(entry["package"])
        path = root / str(entry["file"])
        if not path.is_file():
            return None
        if path not in self._read:
            began = time.perf_counter()
            shown = str(entry["file"])
            self._read[path] = extract_source(SourceFile(path=path, root=root, shown=shown))
            self.seconds[shown] = round(time.perf_counter() - began, 3)
        kernels = self._read[path].kernels
        return next((k for k in kernels if k.kernel.name == entry["kernel"]), None)


def _bodies(known: KernelKnowledge) -> list[Lines]:
    """The lines of the kernel, its decorators and its helpers in the same file."""
    home = known.kernel.entry.span.path
    spans = [f.span.lines for f in known.kernel.functions if f.span.path == home]
    return [(first - 2, last) for first, last in spans]


def compare(entry: dict[str, Any], known: KernelKnowledge) -> tuple[list[Row], list[Judged]]:
    """The gold decisions of one kernel, and what we say of it."""
    package, name = str(entry["package"]), str(entry["kernel"])
    seen = [d for d in known.decisions if d.file is None]
    bodies = _bodies(known)
    rows: list[Row] = []
    agreed: set[int] = set()
    for item in entry["decisions"]:
        lines = ranges(item["lines"])
        hits = [d for d in seen if d.axis == item["axis"] and overlap(d.lines, lines)]
        agreed.update(id(d) for d in hits)
        wanted = item.get("pattern")
        rows.append(
            Row(
                package=package, kernel=name, axis=item["axis"], value=str(item["value"])[:90],
                lines=lines, host=not overlap(bodies, lines), found=bool(hits),
                pattern=any(d.pattern == wanted for d in hits) if wanted else None,
            )
        )  # fmt: skip
    axes = {row.axis for row in rows}
    return rows, [Judged(package, name, d, d.axis in axes, id(d) in agreed) for d in seen]


def summary(rows: list[Row], judged: list[Judged]) -> dict[str, Any]:
    """Counts and rates."""
    covered = [j for j in judged if j.covered]
    wrong = [j for j in covered if not j.agrees]
    inside = [row for row in rows if not row.host]
    by_axis = {axis: [0, 0] for axis in sorted({row.axis for row in rows})}
    for row in rows:
        by_axis[row.axis][0] += row.found
        by_axis[row.axis][1] += 1
    return {
        "gold": len(rows),
        "found": sum(row.found for row in rows),
        "recall": _rate(sum(row.found for row in rows), len(rows)),
        "gold_in_kernel": len(inside),
        "found_in_kernel": sum(row.found for row in inside),
        "recall_in_kernel": _rate(sum(row.found for row in inside), len(inside)),
        "pattern_named_alike": sum(row.pattern is True for row in rows),
        "decisions": len(judged),
        "decisions_on_covered_axes": len(covered),
        "precision_on_covered_axes": _rate(len(covered) - len(wrong), len(covered)),
        "without_gold_by_axis": dict(Counter(j.decision.axis for j in wrong).most_common()),
        "by_axis": by_axis,
    }


def _rate(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def judge(
    gold: Path, reader: Reader, only: str
) -> tuple[list[Row], list[Judged], list[tuple[str, str]]]:
    """Rows and judgements of one gold file, and the kernels that could not be read."""
    rows: list[Row] = []
    judged: list[Judged] = []
    missing: list[tuple[str, str]] = []
    for entry in yaml.safe_load(gold.read_text()):
        if only not in str(entry["file"]):
            continue
        known = reader.kernel(entry)
        if known is None:
            missing.append((str(entry["package"]), str(entry["kernel"])))
            continue
        more, ours = compare(entry, known)
        rows += more
        judged += ours
    return rows, judged, missing


def show(rows: list[Row], judged: list[Judged]) -> None:
    """Misses, and decisions that the gold does not have."""
    for row in rows:
        if not row.found:
            place = "HOST" if row.host else "MISS"
            print(f"{place}  {row.kernel:40} {row.axis:22} {row.lines} {row.value}")
    for j in judged:
        if j.covered and not j.agrees:
            d = j.decision
            print(f"EXTRA {j.kernel:40} {d.axis:22} {list(d.lines)} {d.value} <{d.pattern}>")


def machine() -> dict[str, str]:
    """Where and with what this ran."""
    return {
        "machine": f"{platform.machine()} {platform.platform()}",
        "python": platform.python_version(),
        "libcst": version("libcst"),
    }


def table(results: list[tuple[str, str, dict[str, Any]]], missing: list[tuple[str, str]]) -> str:
    """Markdown: one row per gold file and package."""
    lines = [
        "| gold | package | kernels' decisions | recall | recall inside kernels | precision |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for gold, package, total in results:
        lines.append(
            f"| {gold} | {package} | {total['gold']} | {_share(total, 'recall')} "
            f"| {_share(total, 'recall_in_kernel')} "
            f"| {_share(total, 'precision_on_covered_axes')} |"
        )
    where = machine()
    lines += [
        "",
        "Recall: same axis and overlapping lines, judged on what `tilelore extract` prints. "
        "Precision: over decisions on axes that the gold of the kernel covers.",
    ]
    if missing:
        packages = ", ".join(sorted({package for package, _ in missing}))
        lines.append(
            f"Not judged: {len(missing)} kernels of packages outside the corpus ({packages})."
        )
    lines.append("Measured with " + ", ".join(f"{k} {v}" for k, v in where.items()) + ".")
    return "\n".join(lines) + "\n"


def _share(total: dict[str, Any], key: str) -> str:
    value = total[key]
    return "-" if value is None else f"{value:.3f}"


def main() -> None:
    """Read the gold, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gold", type=Path, required=True, action="append")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="kernels of files whose path contains this")
    parser.add_argument("-v", action="store_true", help="print misses and what the gold lacks")
    given = parser.parse_args()
    reader = Reader(given.corpus)
    results: list[tuple[str, str, dict[str, Any]]] = []
    absent: list[tuple[str, str]] = []
    for gold in given.gold:
        rows, judged, missing = judge(gold, reader, given.only)
        absent += missing
        if given.v:
            show(rows, judged)
        packages = sorted({row.package for row in rows})
        for package in packages:
            own = [row for row in rows if row.package == package]
            part = summary(own, [j for j in judged if j.package == package])
            results.append((gold.stem, package, part))
        total = summary(rows, judged) | {"not_read": missing, "seconds": reader.seconds}
        if len(packages) > 1:
            results.append((gold.stem, "all", total))
        if given.out:
            text = json.dumps(total | machine() | {"rows": [asdict(r) for r in rows]}, indent=1)
            (given.out / f"{gold.stem}.json").write_text(text + "\n")
    text = table(results, absent)
    print(text)
    if given.out:
        (given.out / "table.md").write_text(text)


if __name__ == "__main__":
    main()
