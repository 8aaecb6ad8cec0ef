"""Precision of the finding rules over published packages, judged by hand.

    .venv/bin/python -m benchmarks.lint.run --collect   # read the packages, draw the sample
    .venv/bin/python -m benchmarks.lint.run             # score the verdicts, write the tables

`--collect` runs every rule over the packages below (pinned wheels, from the cache or the
package index), counts the reports in reports.json, and writes sample.json: PER_RULE reports of
each rule, all if there are fewer. The draw is by hash of seed and place, so that a change of one
report changes the sample by one. verdicts.json holds what a reader says of each, after reading the
source: true, false or unsure, and why. Scoring writes results.json and table.md; a report without
a verdict is an error.

precision = true / (true + false); unsure counts for neither and is shown.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from api.extract import SiblingTables, signature_of
from api.source_files import FolderModules, module_text
from api.sources import SourceFile, source_files
from extractors.host.facts import HostFacts
from extractors.host.read import read_host
from extractors.read import read
from extractors.rules.base import Subject
from extractors.rules.registry import findings_of, rules
from kb.analysis.facts import Facts
from kb.errors import InputError
from kb.evidence import Finding

HERE = Path(__file__).resolve().parent
PACKAGES = ("tilegym", "liger-kernel", "fla-core", "flag-gems")
LEFT_OUT = ("flag_gems/runtime/backend/_*", "*ascend*")
KEPT = ("flag_gems/runtime/backend/_nvidia/*",)
"""Common parts and NVIDIA back ends: the rules know the limits of NVIDIA's targets."""

SEED = 20261122
PER_RULE = 30
KEY = ("package", "file", "kernel", "rule", "line")
VERDICTS = ("true", "false", "unsure")


def chosen(file: SourceFile) -> bool:
    """Whether a file is among those that are judged."""
    left_out = any(fnmatch(file.shown, pattern) for pattern in LEFT_OUT)
    return not left_out or any(fnmatch(file.shown, pattern) for pattern in KEPT)


def reports(file: SourceFile) -> Iterator[tuple[str, Finding]]:
    """Kernel and finding, for every finding in a file."""
    module = module_text(file.root, file.path)
    if module is None:
        return
    found = read(module, FolderModules(file.root))
    signatures = {kernel.name: signature_of(kernel) for kernel in found.kernels}
    if not signatures:
        return
    path = str(file.path.relative_to(file.root))
    loader = SiblingTables(file.root)
    hosts = read_host(found.tree, path=path, kernels=signatures, loader=loader)
    for kernel in found.kernels:
        subject = Subject(Facts(kernel), hosts.get(kernel.name, HostFacts()))
        for finding in findings_of(subject):
            yield kernel.name, finding


def collect() -> None:
    """Run every rule over the packages; write the counts and the sample."""
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    files = [file for file in source_files(PACKAGES) if chosen(file)]
    for number, file in enumerate(files):
        try:
            for kernel, finding in reports(file):
                rows.append(_row(file, kernel, finding))
        except (InputError, RecursionError) as error:
            failed.append(f"{file.shown}: {type(error).__name__}")
        if number % 50 == 0:
            print(f"{number}/{len(files)} files, {len(rows)} reports", file=sys.stderr, flush=True)
    counts = Counter((row["rule"], row["package"]) for row in rows)
    write("reports.json", {
        "packages": sorted({row["package"] for row in rows}), "files": len(files),
        "failed": failed, "seed": SEED,
        "reports": [{"rule": rule, "package": package, "count": count}
                    for (rule, package), count in sorted(counts.items())],
    })  # fmt: skip
    write("sample.json", sample(rows))


def _row(file: SourceFile, kernel: str, finding: Finding) -> dict[str, Any]:
    return {
        "package": file.package, "file": file.shown, "kernel": kernel, "rule": finding.rule,
        "line": finding.lines[0][0], "lines": [list(pair) for pair in finding.lines],
        "severity": finding.severity.value, "message": finding.message, "fix": finding.fix,
    }  # fmt: skip


def key(row: dict[str, Any]) -> tuple[str, ...]:
    """What names a report."""
    return tuple(str(row[part]) for part in KEY)


def sample(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """PER_RULE reports of each rule, drawn by hash; two reports at one place are one draw."""
    chosen_rows: list[dict[str, Any]] = []
    for rule in sorted({row["rule"] for row in rows}):
        unique = {key(row): row for row in reversed(rows) if row["rule"] == rule}
        drawn = sorted(unique.values(), key=_rank)[:PER_RULE]
        chosen_rows += sorted(drawn, key=key)
    return chosen_rows


def _rank(row: dict[str, Any]) -> str:
    return hashlib.sha256(repr((SEED, key(row))).encode()).hexdigest()


def score() -> None:
    """Set the verdicts against the sample; write results.json and table.md."""
    drawn = load("sample.json")
    said = {key(row): row for row in load("verdicts.json")}
    missing = [key(row) for row in drawn if key(row) not in said]
    strange = [row for row in said.values() if row["verdict"] not in VERDICTS or not row["reason"]]
    if missing or strange:
        for row in missing[:10]:
            print("no verdict:", *row, file=sys.stderr)
        raise SystemExit(f"{len(missing)} reports without a verdict, {len(strange)} malformed")
    counted = Counter((row["rule"], said[key(row)]["verdict"]) for row in drawn)
    totals = Counter[str]()
    for row in load("reports.json")["reports"]:
        totals[row["rule"]] += row["count"]
    results = [_result(rule.name, totals[rule.name], counted) for rule in rules()]
    write("results.json", {"seed": SEED, "per_rule": PER_RULE, "rules": results})
    (HERE / "table.md").write_text(table(results), encoding="utf-8")


def _result(rule: str, reported: int, counted: Counter[tuple[str, str]]) -> dict[str, Any]:
    true, false, unsure = (counted[rule, verdict] for verdict in VERDICTS)
    precision = true / (true + false) if true + false else None
    return {
        "rule": rule, "reports": reported, "reviewed": true + false + unsure, "true": true,
        "false": false, "unsure": unsure, "precision": precision,
    }  # fmt: skip


def table(results: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    facts = load("reports.json")
    lines = [
        "| rule | reports | reviewed | true | false | unsure | precision |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in results:
        shown = "-" if row["precision"] is None else f"{row['precision']:.2f}"
        lines.append(
            f"| {row['rule']} | {row['reports']} | {row['reviewed']} | {row['true']} | "
            f"{row['false']} | {row['unsure']} | {shown} |"
        )
    packages = ", ".join(facts["packages"])
    return "\n".join([
        *lines, "",
        f"{facts['files']} files of {packages} (common parts and NVIDIA back ends). "
        f"Reviewed: {PER_RULE} reports per rule, drawn with seed {SEED}, each by reading "
        "the source; verdicts and reasons in benchmarks/lint/verdicts.json. Precision: true over "
        "true and false; a dash where there is no report.",
    ]) + "\n"  # fmt: skip


def load(name: str) -> Any:
    """A JSON file of this folder."""
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def write(name: str, value: object) -> None:
    """Write a JSON file of this folder."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    (HERE / name).write_text(text, encoding="utf-8")


def main() -> None:
    """Collect, or score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collect", action="store_true", help="read the packages, draw a sample")
    if parser.parse_args().collect:
        collect()
    else:
        score()


if __name__ == "__main__":
    main()
