"""Recall and precision of `tilelore extract` against hand-made gold.

Usage: python -m benchmarks.gold.run [--gold GOLD.yaml …] [--corpus FOLDER] [--out FOLDER]
[--only TEXT] [-v]

Without --gold: the files of shared/gold beside this repository, and those that golds.json lists.
What is judged is what `tilelore extract --format json` prints for the kernel: program and host
decisions together. Packages come from FOLDER/package, else from the pinned wheels. How each kind
is matched stands in decisions.py, spaces.py and claims.py. What is disputed in the gold stands in
disputed.json with the reason; figures are given with and without it. With --out, `table.md` and, in
readings/, one JSON per gold file are written.

own/ holds the golds that we made, second_readers/ what another annotator said of the same kernels,
first_readings/ what this script wrote when tilelore read a gold for the first time.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from benchmarks.gold import claims, decisions, spaces  # noqa: E402
from benchmarks.gold.entries import Reader, load, overlap  # noqa: E402
from benchmarks.gold.overview import group_of, own  # noqa: E402
from benchmarks.gold.table import table  # noqa: E402


@dataclass
class Result:
    """Everything that was judged of one gold file, or of one package in it."""

    rows: list[decisions.Row] = field(default_factory=list)
    judged: list[decisions.Judged] = field(default_factory=list)
    facts: list[spaces.Fact] = field(default_factory=list)
    claims: list[claims.Claim] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Counts and rates of every kind."""
        return {
            "decisions": decisions.summary(self.rows, self.judged),
            "spaces": spaces.summary(self.facts),
            "constraints": claims.summary(self.claims, "constraint"),
            "findings": claims.summary(self.claims, "finding"),
        }

    def add(self, more: Result) -> None:
        """Take over everything that was judged of another gold file."""
        for mine in fields(self):
            getattr(self, mine.name).extend(getattr(more, mine.name))

    def of(self, package: str) -> Result:
        """What was judged of one package."""
        return Result(
            [x for x in self.rows if x.package == package],
            [x for x in self.judged if x.package == package],
            [x for x in self.facts if x.package == package],
            [x for x in self.claims if x.package == package],
        )


def judge(gold: Path, reader: Reader, only: str) -> Result:
    """Everything that one gold file says, judged."""
    found = Result()
    for entry in load(gold):
        if only not in f"{entry['file']}:{entry['kernel']}":
            continue
        known = reader.kernel(entry)
        if known is None:
            found.missing.append((str(entry["package"]), str(entry["kernel"])))
            continue
        rows, judged = decisions.compare(entry, known)
        found.rows += rows
        found.judged += judged
        found.facts += spaces.compare(entry, known)
        found.claims += claims.compare(entry, known)
    return found


def without_disputed(found: Result, disputed: list[dict[str, Any]]) -> None:
    """Mark what disputed.json names: `miss` is a gold decision, `extra` a decision of ours."""

    def named(side: str, kernel: str, axis: str, lines: Any) -> bool:
        return any(
            item["side"] == side
            and (item["kernel"], item["axis"]) == (kernel, axis)
            and overlap([tuple(item["lines"])], lines)
            for item in disputed
        )

    found.rows = [
        replace(row, disputed=named("miss", row.kernel, row.axis, row.lines)) for row in found.rows
    ]
    found.judged = [
        replace(j, disputed=named("extra", j.kernel, j.decision.axis, j.decision.lines))
        for j in found.judged
    ]


def every_gold() -> list[Path]:
    """The given files, then those of our own."""
    ours = [HERE / "own" / f"{name}.yaml" for names in own(HERE).values() for name in names]
    return [*sorted((HERE.parents[2] / "shared" / "gold").glob("*.yaml")), *ours]


def machine() -> dict[str, str]:
    """Where and with what this ran."""
    return {
        "machine": f"{platform.machine()} {platform.platform()}",
        "python": platform.python_version(),
        "libcst": version("libcst"),
    }


def main() -> None:
    """Read the gold, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gold", type=Path, action="append")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="kernels whose `path:name` contains this")
    parser.add_argument("-v", action="store_true", help="print misses and what the gold lacks")
    given = parser.parse_args()
    if given.out:
        (given.out / "readings").mkdir(parents=True, exist_ok=True)
    reader = Reader(given.corpus)
    disputed = json.loads((HERE / "disputed.json").read_text(encoding="utf-8"))
    results: list[tuple[str, str, dict[str, Any]]] = []
    absent: list[tuple[str, str]] = []
    groups: defaultdict[str, Result] = defaultdict(Result)
    for gold in given.gold or every_gold():
        found = judge(gold, reader, given.only)
        without_disputed(found, disputed)
        absent += found.missing
        groups[group_of(gold.stem, HERE)].add(found)
        if given.v:
            decisions.show(found.rows, found.judged)
            spaces.show(found.facts)
            claims.show(found.claims)
        packages = sorted({row.package for row in found.rows})
        for package in packages:
            results.append((gold.stem, package, found.of(package).summary()))
        total = found.summary()
        if len(packages) > 1:
            results.append((gold.stem, "all", total))
        if given.out:
            rows = {
                "rows": [asdict(row) for row in found.rows],
                "spaces_rows": [asdict(fact) for fact in found.facts],
                "claims": [asdict(claim) for claim in found.claims],
            }
            about = {"not_read": found.missing, "seconds": reader.seconds} | machine()
            text = json.dumps(total | about | rows, indent=1)
            (given.out / "readings" / f"{gold.stem}.json").write_text(text + "\n", encoding="utf-8")
    pooled = {name: found.summary() for name, found in groups.items()}
    text = table(results, pooled, absent, machine(), HERE)
    print(text)
    if given.out:
        (given.out / "table.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
