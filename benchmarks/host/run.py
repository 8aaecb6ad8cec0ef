"""Autotune sites of the corpora: how many resolve to configurations, by spelling and by package.

Usage: python -m benchmarks.host.run [PACKAGE …] [--target sm_90] [--out FOLDER]

A site is a call that names `configs` and `key` (a decorator, a wrapper of one, the functional
form), or a cuTile search call. It is resolved when every case of its space was evaluated; points
are the configurations of all cases under one target profile, with no variable of the environment
set. `expected` in expected.toml are the counts of
an independent script (corpora.md 1.1). Nothing is imported or run. Writes results.json, table.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import platform
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from api.corpora import pinned
from api.extract import SiblingTables, signature_of
from api.source_files import FolderModules, module_text
from api.sources import SourceFile, source_files
from benchmarks.host.spelling import SPELLINGS, configs_of, spelling_of
from extractors.host.events import PROFILES, Case, SearchRecord, TargetProfile
from extractors.host.read import read_searches
from extractors.read import read
from kb.errors import InputError

HERE = Path(__file__).resolve().parent
SEARCHES = frozenset({"exhaustive_search"})
VENDORS = "runtime/backend/_"
OURS = "runtime/backend/_nvidia/"


@dataclass(frozen=True)
class Site:
    """One place where a search is attached, or `called`; `reason` says why it is not resolved."""

    package: str
    file: str
    line: int
    spelling: str
    called: bool
    resolved: bool = False
    points: int = 0
    cases: int = 0
    filtered: bool = False
    key: int = 0
    reason: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write, and say what differs from what is expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--target", default="sm_90", choices=sorted(PROFILES))
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--list", action="store_true", help="print every unresolved site")
    given = parser.parse_args(argv)
    expected = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))["package"]
    packages = given.packages or [name for name in expected if name in pinned()]
    started = time.perf_counter()
    sites: list[Site] = []
    rules: dict[str, int] = {}
    for package in packages:
        found, counted = measure(package, PROFILES[given.target])
        sites += found
        rules[package] = counted
        print(_line(package, found, expected.get(package, {})), flush=True)
    report = _report(sites, rules, expected, given.target)
    report["seconds"] = round(time.perf_counter() - started, 1)
    if given.list:
        for site in sites:
            if not site.resolved:
                print(f"  {site.package} {site.file}:{site.line} [{site.spelling}] {site.reason}")
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "results.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (given.out / "table.md").write_text(table(report), encoding="utf-8")
    return 0


def measure(package: str, profile: TargetProfile) -> tuple[list[Site], int]:
    """Every site of a package, and its number of heuristics tables."""
    sites: list[Site] = []
    rules = 0
    for file in source_files([package]):
        name = file.path.relative_to(file.root).as_posix()
        if VENDORS in name and OURS not in name:
            continue
        try:
            tree = ast.parse(file.path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError, OSError):
            continue
        rules += sum(1 for _ in _heuristics(tree))
        calls = list(_calls(tree))
        if calls:
            sites += _sites(package, name, file, tree, calls, profile)
    return sites, rules


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        keyed = any(word.arg == "key" for word in node.keywords)
        if (keyed and configs_of(node) is not None) or _name(node.func) in SEARCHES:
            yield node


def _heuristics(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) == "heuristics":
            yield node


def _name(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _sites(
    package: str,
    name: str,
    file: SourceFile,
    tree: ast.Module,
    calls: list[ast.Call],
    profile: TargetProfile,
) -> Iterator[Site]:
    try:
        searches = _searches(file, profile)
        missing = "no search was seen at this place"
    except InputError as error:
        searches, missing = {}, str(error)
    for call in calls:
        spelling = spelling_of(_configs(call), tree)
        record = searches.get(call.lineno)
        blank = Site(package, name, call.lineno, spelling, _name(call.func) in SEARCHES)
        yield _site(blank, record, missing)


def _configs(call: ast.Call) -> ast.expr | None:
    return configs_of(call) or (call.args[0] if call.args else None)


def _searches(file: SourceFile, profile: TargetProfile) -> dict[int, SearchRecord]:
    """Searches of a file by their first line."""
    module = module_text(file.root, file.path)
    if module is None:
        return {}
    found = read(module, FolderModules(file.root))
    records = read_searches(
        found.tree,
        path=str(file.path.relative_to(file.root)),
        kernels={kernel.name: signature_of(kernel) for kernel in found.kernels},
        loader=SiblingTables(file.root),
        profile=profile,
    )
    return {record.lines[0]: record for record in reversed(records)}


def _site(blank: Site, record: SearchRecord | None, missing: str) -> Site:
    if record is None:
        return replace(blank, reason=missing)
    cases = [case for case in record.cases if not _by_environment(case)]
    reasons = [case.reason for case in cases if case.reason]
    points = sum(len(case.points) for case in cases)
    reason = reasons[0] if reasons else ("" if points else "no configuration came out")
    return replace(
        blank,
        resolved=not reason,
        points=points,
        cases=len(cases),
        filtered=record.prune is not None,
        key=len(record.key) if isinstance(record.key, tuple) else 0,
        reason=reason,
    )


def _by_environment(case: Case) -> bool:
    """Whether a case holds only when a variable of the environment has a certain value."""
    return any(
        holds
        and cond.op == "=="
        and "os.environ.get" in (getattr(cond.args[0], "args", None) or ())
        for cond, holds in case.conds
    )


def _line(package: str, sites: list[Site], expected: dict[str, int]) -> str:
    row = _counts([site for site in sites if not site.called])
    calls = _counts([site for site in sites if site.called])
    wanted = ", ".join(f"{value} {name}" for name, value in expected.items())
    return (
        f"{package}: {row['sites']} sites, {row['resolved']} resolved, {row['points']} points "
        f"(expected: {wanted or 'nothing stated'}); "
        f"{calls['sites']} search calls, {calls['resolved']} resolved, {calls['points']} points"
    )


def _report(
    sites: list[Site], rules: dict[str, int], expected: dict[str, Any], target: str
) -> dict[str, Any]:
    packages = {
        name: {
            **_counts([s for s in sites if s.package == name and not s.called]),
            "search_calls": _counts([s for s in sites if s.package == name and s.called]),
            "heuristics": rules[name],
            "expected": expected.get(name, {}),
        }
        for name in rules
    }
    spellings = {
        name: _counts(rows)
        for name in SPELLINGS
        if (rows := [site for site in sites if site.spelling == name])
    }
    return {
        "target": target,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "pinned": {name: pinned().get(name, name) for name in rules},
        "packages": packages,
        "spellings": spellings,
        "reasons": dict(Counter(site.reason for site in sites if not site.resolved)),
        "unresolved": [asdict(site) for site in sites if not site.resolved],
    }


def _counts(sites: list[Site]) -> dict[str, int]:
    done = [site for site in sites if site.resolved]
    return {
        "sites": len(sites),
        "resolved": len(done),
        "points": sum(site.points for site in done),
        "filtered_at_run_time": sum(site.filtered for site in sites),
        "with_cache_key": sum(bool(site.key) for site in sites),
    }


def table(report: dict[str, Any]) -> str:
    """The report as two Markdown tables and the list of what is not resolved."""
    lines = ["| package | attached | resolved | points | expected | run-time filters | heuristics "
             "| search calls | resolved | points |",
             "|---|---:|---:|---:|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for name, row in report["packages"].items():
        wanted, calls = row["expected"], row["search_calls"]
        said = (
            f"{wanted['sites']} → {wanted['resolved']}, {wanted['points']}"
            if wanted
            else "not stated"
        )
        lines.append(
            f"| {report['pinned'][name]} | {row['sites']} | {row['resolved']} | {row['points']} "
            f"| {said} | {row['filtered_at_run_time']} | {row['heuristics']} "
            f"| {calls['sites']} | {calls['resolved']} | {calls['points']} |"
        )
    lines += ["", "| spelling | sites | resolved | points |", "|---|---:|---:|---:|"]
    lines += [
        f"| {name} | {row['sites']} | {row['resolved']} | {row['points']} |"
        for name, row in report["spellings"].items()
    ]
    if report["unresolved"]:
        lines += ["", "Not resolved:", ""]
        lines += [
            f"- {row['package']} {row['file']}:{row['line']} ({row['spelling']}): {row['reason']}"
            for row in report["unresolved"]
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
