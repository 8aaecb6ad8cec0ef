"""What compilers say of generated FMHA by pointers and by descriptors, at the demo's tile sizes.

    python -m benchmarks.cross_dialect.compile_facts

Numerics in the interpreter, then registers, spills and shared memory per target, without a GPU.
Writes compile_facts.json and compile_facts.md beside this file.
"""

from __future__ import annotations

import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from api.generate import generate
from api.verify import Kind, Result, verify
from benchmarks.h200.prepare_descriptors import ROADS, document

HERE = Path(__file__).parent
ARCHES = ("sm_80", "sm_90", "sm_100")


def facts_of(road: str, settings: dict[str, str]) -> dict[str, Any]:
    """One road at the point that the design space gives first."""
    text = generate(document(), "triton", settings)
    with tempfile.TemporaryDirectory(prefix="tilelore-facts-") as folder:
        path = Path(folder) / f"fmha_{road}.py"
        path.write_text(text, encoding="utf-8")
        report = verify(path, arches=ARCHES)
    numerics = [row for row in report.checks if row.kind is Kind.NUMERICS]
    return {
        "road": road,
        "numerics": f"{sum(r.result is Result.HOLDS for r in numerics)} of {len(numerics)}",
        "targets": {r.check: r.detail for r in report.checks if r.kind is Kind.COMPILE},
        "lines": len(text.splitlines()),
    }


def main() -> None:
    """All roads."""
    rows = [facts_of(road, settings) for road, settings in ROADS.items()]
    report = {"versions": {n: version(n) for n in ("triton", "torch")}, "rows": rows}
    (HERE / "compile_facts.json").write_text(json.dumps(report, indent=1) + "\n")
    lines = ["| road | numerics | target | compiled |", "|---|---|---|---|"]
    for row in rows:
        for arch, detail in sorted(row["targets"].items()):
            lines.append(f"| {row['road']} | {row['numerics']} | {arch} | {detail} |")
    (HERE / "compile_facts.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
