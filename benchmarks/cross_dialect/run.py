"""cuTile to Triton over a package: what is lowered, what computes the same, what is left over.

    python benchmarks/cross_dialect/run.py [SOURCE] [--only NAME ...]

Writes results.json (machine, versions, seed, a row per kernel) and results.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from api.source_files import FolderModules, module_text, source_tree
from extractors.modules import ModuleText
from extractors.opaque import opaque_ops
from extractors.read import read
from generators.compile_model import Scalar
from generators.emit import emit_program
from generators.interpret.client import Interpreter
from generators.interpret.compare import Plan, Verdict, cross_check
from generators.lower.roads import Manner, Road
from generators.lower.triton import to_triton
from kb.errors import TileloreError
from kb.ir import Kernel

HERE = Path(__file__).parent
SEED = 0
ROADS = (Road.HOST, Road.DEVICE)
_DIGITS = re.compile(r"\b\d+\b(?= elements| axes)")
LAUNCHES = json.loads((HERE / "launches.json").read_text())
"""Parameters that a launch cannot guess: what the program asserts, or ties between sizes."""


def kernels(source: str, part: str) -> Iterator[tuple[str, Kernel]]:
    """Every cuTile kernel of the files whose path holds `part`."""
    tree = source_tree(source)
    loader = FolderModules(tree.root)
    for file in tree.files:
        module = module_text(tree.root, file)
        if module is None or part not in module.path:
            continue
        for kernel in read(module, loader).kernels:
            if kernel.dialect == "cutile":
                yield module.path, kernel


def check(path: str, kernel: Kernel, interpreter: Interpreter) -> dict[str, Any]:
    """One row."""
    started = time.monotonic()
    fixed: dict[str, Scalar] = LAUNCHES.get(f"{path}:{kernel.name}", {})
    verdict = cross_check(kernel, interpreter, Plan(seed=SEED, fixed=fixed, road=Road.POINTERS))
    row = {"kernel": kernel.name, "path": path, **stated(verdict), "fixed": fixed}
    row["descriptors"] = {}
    for road in ROADS if verdict.lowered else ():
        plan = Plan(seed=SEED, wanted=1, fixed=fixed, road=road)
        found = cross_check(kernel, interpreter, plan)
        row["descriptors"][road.value] = stated(found) | {"described": found.described}
        row["accesses"] = [asdict(access) for access in found.accesses]
    row["reread"] = reread(kernel) if verdict.lowered else ""
    row["seconds"] = round(time.monotonic() - started, 1)
    return row


def stated(verdict: Verdict) -> dict[str, Any]:
    """A verdict without its accesses, which stand once per kernel."""
    return {k: v for k, v in asdict(verdict).items() if k not in ("accesses", "described")}


def reread(kernel: Kernel) -> str:
    """Empty when the emitted source reads back without opaque operations, else what is wrong."""
    try:
        for road in Road:
            text = emit_program(to_triton(kernel, Manner(road=road)).kernel, "triton")
            found = read(ModuleText("", f"{kernel.name}.py", text)).kernels
            if len(found) != 1:
                return f"{len(found)} kernels were read back"
            strange = opaque_ops(found[0])
            if strange:
                return f"`{strange[0].attribute('what')}` was not understood"
    except TileloreError as error:
        return error.text
    return ""


def summary(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The counts."""
    return {
        "kernels": len(rows),
        "lowered": sum(row["lowered"] for row in rows),
        "verified": sum(row["verified"] for row in rows),
        "reread": sum(row["lowered"] and not row["reread"] for row in rows),
        **{
            f"verified_{road.value}": sum(
                row["descriptors"].get(road.value, {}).get("verified", False) for row in rows
            )
            for road in ROADS
        },
        "accesses": sum(len(row.get("accesses", ())) for row in rows),
        "described": sum(not access["reason"] for access in accesses(rows)),
        "kernels_described": sum(
            any(not access["reason"] for access in row.get("accesses", ())) for row in rows
        ),
    }


def accesses(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every access of every kernel."""
    for row in rows:
        yield from row.get("accesses", ())


def markdown(report: dict[str, Any]) -> str:
    """The report as a page."""
    counts, rows = report["summary"], report["rows"]
    lines = [
        "# cuTile to Triton", "",
        f"{counts['kernels']} kernels: {counts['lowered']} lowered, {counts['verified']} verified, "
        f"{counts['reread']} read back without opaque operations (seed {report['seed']}).", "",
        "Verified: the cuTile program in the NumPy interpreter and the emitted source in Triton's "
        "interpreter wrote the same outputs on small derived launches.", "",
        f"Through tensor descriptors: {counts['verified_host']} kernels verified with descriptors "
        f"of the host, {counts['verified_device']} with descriptors of the kernel. Of "
        f"{counts['accesses']} accesses {counts['described']} are served, in "
        f"{counts['kernels_described']} kernels.", "", "## The rest", "",
        "| reason | kernels |", "|---|---|",
    ]  # fmt: skip
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if not row["verified"]:
            reasons.setdefault(row["reason"].rpartition(": ")[2], []).append(row["kernel"])
    lines += [f"| {reason} | {', '.join(names)} |" for reason, names in sorted(reasons.items())]
    lines += ["", "## Accesses by pointers", "", "| reason | accesses |", "|---|---:|"]
    why = Counter(_DIGITS.sub("n", a["reason"]) for a in accesses(rows) if a["reason"])
    lines += [f"| {reason} | {count} |" for reason, count in why.most_common()]
    head = (
        "| kernel | lowered | verified | host | device | accesses by descriptor | launches | "
        "worst error | residual decisions |"
    )
    lines += ["", "## Kernels", "", head, "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        axes = Counter(text.partition(":")[0] for text in row["residuals"])
        shown = ", ".join(f"{axis} ({count})" for axis, count in sorted(axes.items()))
        roads = [row["descriptors"].get(road.value, {}).get("verified") for road in ROADS]
        marks = " | ".join(
            "yes" if it else "no" for it in (row["lowered"], row["verified"], *roads)
        )
        mine = row.get("accesses", ())
        marks += f" | {sum(not a['reason'] for a in mine)} of {len(mine)}"
        name = f"{row['path'].rpartition('/')[2]} {row['kernel']}"
        lines.append(f"| {name} | {marks} | {row['launches']} | {row['worst']:.1e} | {shown} |")
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Replace a file at once, so that a full disk leaves the old one."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


def main() -> int:
    """Run, print progress, write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="?", default="tilegym==1.5.1")
    parser.add_argument("--part", default="ops/cutile/")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with Interpreter() as interpreter:
        for path, kernel in kernels(options.source, options.part):
            if options.only and kernel.name not in options.only:
                continue
            rows.append(check(path, kernel, interpreter))
            row = rows[-1]
            roads = [found["verified"] for found in row["descriptors"].values()]
            good = row["verified"] and all(roads)
            print("ok  " if good else "--  ", kernel.name, row["reason"], roads, flush=True)
    report = {
        "source": options.source, "part": options.part, "seed": SEED,
        "machine": {"system": platform.platform(), "cpu": platform.machine(),
                    "cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: version(name) for name in ("tilelore", "torch", "triton", "numpy")},
        "summary": summary(rows), "rows": rows,
    }  # fmt: skip
    print(report["summary"])
    if not options.only:
        write(HERE / "results.json", json.dumps(report, indent=1) + "\n")
        write(HERE / "results.md", markdown(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
