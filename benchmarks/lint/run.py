"""Precision of the finding rules over published packages, judged by hand.

    .venv/bin/python -m benchmarks.lint.run --collect   # read the packages, draw the samples
    .venv/bin/python -m benchmarks.lint.run             # score the verdicts, write the tables

`--collect` reads the packages below (pinned archives, from the cache or the package index) as
`tilelore extract` does, counts the reports in reports.json, and writes sample.json: PER_RULE
reports of each rule in each language, all if there are fewer. The draw is by hash of seed and
place, so that a change of one report changes the sample by one. verdicts.json holds what a reader
says of each, after reading the source: true, false or unsure, and why. Scoring writes results.json
and table.md; a report without a verdict is an error.

precision = true / (true + false); unsure counts for neither and is shown.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from api.extract import extract_many
from api.sources import SourceFile, source_files
from extractors.rules.registry import rules
from kb.evidence import Finding, Severity

HERE = Path(__file__).resolve().parent
PACKAGES = {
    "Triton and cuTile": ("tilegym", "liger-kernel", "fla-core", "flag-gems"),
    "CUDA C++": ("flashinfer-python", "flash-attn", "torchao"),
}
"""Whose kernels are judged, by language."""

LEFT_OUT = ("flag_gems/runtime/backend/_*", "*ascend*")
KEPT = ("flag_gems/runtime/backend/_nvidia/*",)
"""Common parts and NVIDIA back ends: the rules know the limits of NVIDIA's targets."""

SEED = 20261122
PER_RULE = 30
KEY = ("package", "file", "kernel", "rule", "line")
VERDICTS = ("true", "false", "unsure")


def language(file: str) -> str:
    """The language of a file, by its ending."""
    return "Triton and cuTile" if file.endswith(".py") else "CUDA C++"


def chosen(file: SourceFile) -> bool:
    """Whether a file is among those that are judged."""
    wanted = file.package.partition("==")[0] in PACKAGES[language(file.shown)]
    left_out = any(fnmatch(file.shown, pattern) for pattern in LEFT_OUT)
    return wanted and (not left_out or any(fnmatch(file.shown, pattern) for pattern in KEPT))


def collect() -> None:
    """Read the packages; write the counts and the samples."""
    names = [name for packages in PACKAGES.values() for name in packages]
    files = [file for file in source_files(names) if chosen(file)]
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for file, found in zip(files, extract_many(files, progress=tell), strict=True):
        failed += [f"{file.shown}: {d.message}" for d in found.diagnostics
                   if d.severity is Severity.ERROR]  # fmt: skip
        rows += [
            _row(file, known.kernel.name, finding)
            for known in found.kernels
            for finding in known.findings
        ]
    counts = Counter((language(row["file"]), row["rule"], row["package"]) for row in rows)
    write("reports.json", {
        "packages": sorted({f"{file.package}, {language(file.shown)}" for file in files}),
        "files": dict(sorted(Counter(language(file.shown) for file in files).items())),
        "failed": failed, "seed": SEED,
        "reports": [{"language": spoken, "rule": rule, "package": package, "count": count}
                    for (spoken, rule, package), count in sorted(counts.items())],
    })  # fmt: skip
    write("sample.json", sample(rows))


def tell(count: int, total: int, _: str) -> None:
    """How far the reading is, on standard error."""
    if count % 50 == 0 or count == total:
        print(f"{count}/{total} files", file=sys.stderr, flush=True)


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
    """PER_RULE reports of each rule in each language, drawn by hash; two reports at one place are
    one draw."""
    groups: dict[tuple[str, str], dict[tuple[str, ...], dict[str, Any]]] = {}
    for row in reversed(rows):
        groups.setdefault((language(row["file"]), row["rule"]), {})[key(row)] = row
    chosen_rows: list[dict[str, Any]] = []
    for _, unique in sorted(groups.items()):
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
    counted = Counter(
        (language(row["file"]), row["rule"], said[key(row)]["verdict"]) for row in drawn
    )
    totals = Counter[tuple[str, str]]()
    for row in load("reports.json")["reports"]:
        totals[row["language"], row["rule"]] += row["count"]
    results = [
        _result(spoken, rule.name, totals[spoken, rule.name], counted)
        for spoken in PACKAGES
        for rule in rules()
        if totals[spoken, rule.name]
    ]
    write("results.json", {"seed": SEED, "per_rule": PER_RULE, "rules": results})
    (HERE / "table.md").write_text(table(results), encoding="utf-8")


def _result(
    spoken: str, rule: str, reported: int, counted: Counter[tuple[str, str, str]]
) -> dict[str, Any]:
    true, false, unsure = (counted[spoken, rule, verdict] for verdict in VERDICTS)
    precision = true / (true + false) if true + false else None
    return {
        "language": spoken, "rule": rule, "reports": reported, "reviewed": true + false + unsure,
        "true": true, "false": false, "unsure": unsure, "precision": precision,
    }  # fmt: skip


def table(results: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    facts = load("reports.json")
    lines = [
        "| language | rule | reports | reviewed | true | false | unsure | precision |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in results:
        shown = "-" if row["precision"] is None else f"{row['precision']:.2f}"
        cells = (row[name] for name in ("language", "rule", "reports", "reviewed", *VERDICTS))
        lines.append(f"| {' | '.join(map(str, cells))} | {shown} |")
    silent = sorted({rule.name for rule in rules()} - {row["rule"] for row in results})
    files = " and ".join(f"{count} files of {spoken}" for spoken, count in facts["files"].items())
    return "\n".join([
        *lines, "",
        f"Rules without a report: {', '.join(silent) or 'none'}.", "",
        f"{files}, of {'; '.join(facts['packages'])} (common parts and NVIDIA back ends). "
        f"Reviewed: {PER_RULE} reports per rule and language, drawn with seed {SEED}, each by "
        "reading the source; verdicts and reasons in benchmarks/lint/verdicts.json. Precision: "
        "true over true and false.",
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
