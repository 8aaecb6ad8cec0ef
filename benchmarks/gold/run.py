"""Recall and precision of the program-side patterns against the hand-made gold.

Usage: python benchmarks/gold/run.py --gold ../shared/gold/cutile.yaml --corpus FOLDER [--json OUT]
[-v]

FOLDER holds the unpacked packages, each in a folder of its own name. A gold decision counts as
found when a decision on the same axis overlaps one of its line ranges. Gold decisions whose lines
all lie outside the kernel (host code) are counted apart. An extra is a decision on an axis that
overlaps no gold decision of that axis in that kernel.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kb.analysis.facts import Facts
from extractors.detect import decisions_of
from extractors.modules import ModuleText
from extractors.read import ReadModule, read
from kb.evidence import Decision, Lines
from kb.ir import Kernel


@dataclass
class FolderModules:
    """Module texts below a folder, by dotted name."""

    root: Path
    _texts: dict[str, ModuleText | None] = field(default_factory=dict)

    def load(self, dotted: str) -> ModuleText | None:
        """The text of a module, None when the folder has none of that name."""
        if dotted not in self._texts:
            base = self.root.joinpath(*dotted.split("."))
            self._texts[dotted] = None
            for path, package in ((base.with_suffix(".py"), False), (base / "__init__.py", True)):
                if path.is_file():
                    self._texts[dotted] = ModuleText(dotted, str(path), path.read_text(), package)
                    break
        return self._texts[dotted]


@dataclass
class Row:
    """One gold decision and whether it was found."""

    kernel: str
    axis: str
    value: str
    lines: list[Lines]
    absent: bool
    host: bool
    found: bool
    pattern: bool | None
    exact: bool


def ranges(text: object) -> list[Lines]:
    """Line ranges of the gold: `67, 114-118`, or a pair."""
    if isinstance(text, list):
        return [(int(text[0]), int(text[1]))]
    found: list[Lines] = []
    for part in str(text).split(","):
        first, _, last = part.strip().partition("-")
        found.append((int(first), int(last or first)))
    return found


def overlap(left: list[Lines] | tuple[Lines, ...], right: list[Lines]) -> bool:
    """True when two lists of ranges share a line."""
    return any(a[0] <= b[1] and b[0] <= a[1] for a in left for b in right)


def _named(hits: list[Decision], wanted: object) -> bool | None:
    """Whether a hit comes from the pattern that the gold names; None when it names none."""
    return any(d.pattern == wanted for d in hits) if wanted else None


def load(corpus: Path, entry: dict[str, object], cache: dict[str, ReadModule]) -> Kernel | None:
    """The kernel that a gold entry speaks of; None when the package is not unpacked."""
    root = corpus / str(entry["package"])
    path = root / str(entry["file"])
    if not path.is_file():
        return None
    if str(path) not in cache:
        dotted = str(entry["file"]).removesuffix(".py").replace("/", ".")
        cache[str(path)] = read(
            ModuleText(dotted, str(path), path.read_text()), FolderModules(root)
        )
    return next((k for k in cache[str(path)].kernels if k.name == entry["kernel"]), None)


def compare(entry: dict[str, object], kernel: Kernel) -> tuple[list[Row], list[Decision], float]:
    """Rows of one kernel, the decisions that no gold row explains, and the seconds that detection
    took."""
    began = time.perf_counter()
    seen = decisions_of(Facts(kernel))
    seconds = time.perf_counter() - began
    bodies = [
        function.span.lines
        for function in kernel.functions
        if function.span.path == kernel.entry.span.path
    ]
    first = min(body[0] for body in bodies) - 2
    bodies.append((first, first + 2))
    rows: list[Row] = []
    explained: set[Decision] = set()
    gold = entry["decisions"]
    assert isinstance(gold, list)
    for item in gold:
        lines = ranges(item["lines"])
        same = [d for d in seen if d.axis == item["axis"]]
        hits = [d for d in same if overlap(d.lines, lines)]
        explained.update(hits)
        wanted = item.get("pattern")
        rows.append(
            Row(
                kernel=str(entry["kernel"]), axis=item["axis"], value=str(item["value"])[:90],
                lines=lines, absent=bool(item.get("absent")), host=not overlap(bodies, lines),
                found=bool(hits), pattern=_named(hits, wanted),
                exact=any(set(lines) & set(d.lines) for d in hits),
            )
        )  # fmt: skip
    return rows, [d for d in seen if d not in explained], seconds


def report(rows: list[Row], extras: list[tuple[str, Decision]], verbose: bool) -> dict[str, object]:
    """Totals, with misses and extras printed."""
    program = [r for r in rows if not r.host]
    found = [r for r in program if r.found]
    if verbose:
        for row in program:
            if not row.found:
                print(f"MISS  {row.kernel:44} {row.axis:24} {row.lines} {row.value}")
        for kernel, decision in extras:
            print(f"EXTRA {kernel:44} {decision.axis:24} {list(decision.lines)} {decision.value}")
    axes = {(row.kernel, row.axis) for row in rows}
    by_axis = {axis: [0, 0] for axis in sorted({r.axis for r in program})}
    for row in program:
        by_axis[row.axis][0] += row.found
        by_axis[row.axis][1] += 1
    matched = len(found)
    total: dict[str, object] = {
        "gold_program": len(program), "found": matched,
        "recall": round(matched / len(program), 4) if program else None,
        "gold_host_only": len(rows) - len(program),
        "host_found_too": sum(r.found for r in rows if r.host),
        "pattern_named_alike": sum(r.pattern is True for r in found),
        "a_line_range_alike": sum(r.exact for r in found),
        "extras": len(extras),
        "precision_if_extras_are_wrong": round(matched / max(matched + len(extras), 1), 4),
        "extras_on_axes_of_that_kernel": sum((name, d.axis) in axes for name, d in extras),
        "extras_by_axis": dict(Counter(d.axis for _, d in extras).most_common()),
        "by_axis": by_axis,
    }  # fmt: skip
    return total


def main() -> None:
    """Read the gold, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gold", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="kernels of files whose path contains this")
    parser.add_argument("-v", action="store_true")
    given = parser.parse_args()
    rows: list[Row] = []
    extras: list[tuple[str, Decision]] = []
    seconds: dict[str, float] = {}
    absent: list[str] = []
    cache: dict[str, ReadModule] = {}
    for entry in yaml.safe_load(given.gold.read_text()):
        if given.only not in str(entry["file"]):
            continue
        kernel = load(given.corpus, entry, cache)
        if kernel is None:
            absent.append(f"{entry['file']}:{entry['kernel']}")
            continue
        more, left, took = compare(entry, kernel)
        rows += more
        extras += [(kernel.name, d) for d in left]
        seconds[kernel.name] = round(took, 4)
    total = report(rows, extras, given.v)
    total |= {
        "seconds": seconds, "not_read": absent,
        "machine": f"{platform.machine()} {platform.processor() or ''} {platform.platform()}",
        "python": platform.python_version(), "libcst": version("libcst"),
    }  # fmt: skip
    print(json.dumps(total, indent=1))
    if given.json:
        given.json.write_text(
            json.dumps(total | {"rows": [asdict(r) for r in rows]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
