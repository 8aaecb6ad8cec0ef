"""Round trip of whole corpora: regenerate every kernel from its tile program, compare machine code.

    python -m benchmarks.roundtrip.run [--jobs 2] [--cache DIR] [--out FILE] [SOURCE…]

A SOURCE is a path or a pinned wheel; without one, the four corpora of the report. Prints progress,
can be stopped and started again (the times of the report are then those of the last start), writes
a JSON report and a table beside it. `--reuse no` compiles everything, also what the compiler has
seen in the same input form.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from api.console import write_text
from api.corpora import cache_folder
from api.roundtrip import TARGETS, KernelCheck, Request, Stage, roundtrip, targets_asked
from api.source_files import SourceTree, source_tree
from generators.compile_pool import CompilerPool, PoolSettings, available
from kb.errors import InputError

CORPORA = ("tilegym==1.5.1", "liger-kernel==0.8.5", "fla-core==0.6.0", "flag-gems==5.0.2")
OTHER_VENDORS = (
    "*/backends/_ascend/*",
    "*/triton_ascend/*",
    "flag_gems/runtime/backend/_[!n]*",
    "flag_gems/runtime/backend/_n[!v]*",
)
"""Kernels written for other vendors' compilers; they are no NVIDIA kernels."""

HERE = Path(__file__).parent
COLUMNS = (
    "package", "dialect", "found", "read without opaque", "signature", "compiled", "identical",
    "share", "input form identical",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every kernel that compiles is identical, 1 otherwise."""
    options = _options(arguments)
    started = time.monotonic()
    packages: dict[str, tuple[KernelCheck, ...]] = {}
    for source in options.source or CORPORA:
        tree = source_tree(source, OTHER_VENDORS)
        packages[_label(source)] = _one(tree, options)
    seconds = round(time.monotonic() - started, 1)
    report: dict[str, Any] = {
        "machine": _machine(options.cache),
        "jobs": options.jobs,
        "seconds": seconds,
        "cpu_seconds": _cpu_seconds(),
        "targets": targets_asked(options.target),
        "packages": {name: [_row(check) for check in checks] for name, checks in packages.items()},
    }
    text = "\n\n".join((table(packages), spent(report), reasons(packages))) + "\n"
    print(text)
    problem = save(options.out, report, text)
    if problem:
        print(f"{problem} What is finished is remembered; start the run again.")
        return 2
    print(f"{seconds} s, {report['cpu_seconds']} s of CPU, {options.out}")
    every = [check.identical for checks in packages.values() for check in checks]
    return 0 if False not in every else 1


def _label(source: str) -> str:
    """A pinned wheel as it was named, a folder inside one without the folders of this machine."""
    held = cache_folder() / "corpora"
    path = Path(source)
    return str(path.relative_to(held)) if path.is_relative_to(held) else source


def save(path: Path, report: dict[str, object], text: str) -> str:
    """Write report and table, each whole or not at all; what went wrong, empty when nothing did."""
    try:
        write_text(path, json.dumps(report, indent=1, sort_keys=True) + "\n")
        write_text(path.with_suffix(".md"), text)
    except InputError as problem:
        return problem.text
    return ""


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roundtrip.run")
    parser.add_argument("source", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cache", type=Path, default=cache_folder() / "roundtrip")
    parser.add_argument("--out", type=Path, default=HERE / "report.json")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one compile")
    parser.add_argument("--target", action="append", default=[], help="only these targets")
    parser.add_argument("--reuse", choices=("yes", "no"), default="yes")
    return parser.parse_args(arguments)


def _one(tree: SourceTree, options: argparse.Namespace) -> tuple[KernelCheck, ...]:
    request = Request(
        tree=tree, cache=options.cache, jobs=options.jobs, seconds=options.seconds,
        targets=targets_asked(options.target), reuse=options.reuse == "yes",
    )  # fmt: skip

    def show(done: int, files: int, check: KernelCheck) -> None:
        verdict = {True: "identical", False: "DIFFERS", None: "not counted"}[check.identical]
        print(f"{tree.name} {done}/{files} {check.path}:{check.line} {check.name}: {verdict}",
              file=sys.stderr, flush=True)  # fmt: skip

    return roundtrip(request, show)


def spent(report: Mapping[str, Any]) -> str:
    """How long the run of a report took, in a sentence."""
    cores = report["machine"]["cores"]
    return (
        f"{report['seconds']:,.0f} s with {report['jobs']} processes on {cores} cores, "
        f"{report['cpu_seconds']:,.0f} s of CPU."
    )


def _cpu_seconds() -> float:
    """CPU time of this run and of every process that it started and that has ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(usage.ru_utime + usage.ru_stime for usage in spent), 1)


def _machine(cache: Path) -> dict[str, object]:
    """Where and with what the report was made."""
    with CompilerPool(PoolSettings(cache=cache)) as pool:
        tools = {name: pool.toolchain(name) for name in TARGETS if available(name)}
    return {
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "compilers": tools,
    }


def _row(check: KernelCheck) -> dict[str, object]:
    """Everything known of one kernel, its verdict included."""
    return {**asdict(check), "identical": check.identical}


def table(packages: dict[str, tuple[KernelCheck, ...]]) -> str:
    """One line per package and dialect, as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    for package, checks in packages.items():
        for dialect in sorted({check.dialect for check in checks if check.dialect}):
            mine = [check for check in checks if check.dialect == dialect]
            lines.append(f"| {package} | {dialect} | {' | '.join(map(str, _counts(mine)))} |")
    return "\n".join(lines)


def _counts(checks: Iterable[KernelCheck]) -> tuple[object, ...]:
    found = list(checks)
    counted = [check for check in found if check.identical is not None]
    same = [check for check in counted if check.identical]
    form = [check for check in counted if all(v is not False for v in check.front_end.values())]
    derived = [check for check in found if check.stage not in (Stage.READ, Stage.SIGNATURE)]
    share = f"{100 * len(same) / len(counted):.1f} %" if counted else "—"
    clean = sum(not check.opaque for check in found)
    return len(found), clean, len(derived), len(counted), len(same), share, len(form)


def reasons(packages: dict[str, tuple[KernelCheck, ...]]) -> str:
    """Every kernel that is not identical, with the reason."""
    lines = ["| kernel | verdict | reason |", "| --- | --- | --- |"]
    for package, checks in packages.items():
        for check in checks:
            if check.identical is not True:
                verdict = "differs" if check.identical is False else "not counted"
                reason = check.reason.replace("|", "\\|")
                where = f"{package} {check.path}:{check.line} `{check.name}`"
                lines.append(f"| {where} | {verdict} ({check.stage}) | {reason} |")
    stages = Counter(
        f"{check.stage}: {check.identical}" for checks in packages.values() for check in checks
    )
    return "\n".join(lines) + "\n\n" + ", ".join(f"{k} {n}" for k, n in sorted(stages.items()))


if __name__ == "__main__":
    sys.exit(main())
