"""Modules for kernels that were read from Triton: how many are written, import, and run.

    python -m benchmarks.modules.run [--only NAME ...]

For every Triton kernel of the pinned packages: extract → generate --dialect triton → import in a
fresh process → one small launch in Triton's interpreter. Writes results.json and table.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from api.corpora import fetch
from api.extract import extract_file
from api.generate import generate
from api.verify import stated_facts
from generators.compile_model import ArgumentKind, Signature
from generators.signatures import candidates
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.model import Document
from kb.dsl.program import document_program
from kb.errors import TileloreError

HERE = Path(__file__).parent
PACKAGES = (("liger-kernel==0.8.5", "liger_kernel/ops/"), ("tilegym==1.5.1", "tilegym/"))
SKIPPED = "/backends/"
"""Folder of kernels for other vendors' devices."""

SECONDS = 40


def documents() -> Iterator[tuple[str, str, Document]]:
    """Package, path and design space of every Triton kernel."""
    for package, under in PACKAGES:
        corpus = fetch(package)
        for path in sorted(map(str, corpus.files)):
            if not path.startswith(under) or SKIPPED in path or not path.endswith(".py"):
                continue
            source = extract_file(corpus.folder / path, package=package, licence=corpus.licence)
            for kernel in source.kernels:
                if kernel.kernel.dialect == "triton":
                    yield package, path, knowledge_document(kernel)


def values_of(signature: Signature) -> dict[str, dict[str, Any]]:
    """What a signature suggests for every parameter."""
    found: dict[str, dict[str, Any]] = {}
    for argument in signature.arguments:
        if argument.kind is ArgumentKind.POINTER:
            found[argument.name] = {"dtype": argument.dtype}
        elif argument.kind is ArgumentKind.DESCRIPTOR:
            found[argument.name] = {"dtype": argument.dtype, "described": True}
        elif argument.kind is ArgumentKind.DTYPE:
            found[argument.name] = {"dtype": argument.dtype, "constant": True}
        elif argument.kind is ArgumentKind.SCALAR:
            found[argument.name] = {"value": 1.0 if argument.dtype[0] == "f" else 4}
        elif argument.kind is ArgumentKind.CONSTEXPR:
            found[argument.name] = {"value": argument.value}
    return found


class Caller:
    """The process that imports and launches modules."""

    def __init__(self) -> None:
        environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "call.py")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
            env=environment,
        )  # fmt: skip

    def ask(self, path: Path, document: Document) -> dict[str, Any]:
        """What importing and launching one module gave."""
        program = document_program(document)
        facts = stated_facts(path.read_text(encoding="utf-8"), str(path))
        signatures = [values_of(signature) for signature in candidates(program, document.tuning)]
        named = ((n, v) for s in signatures for n, v in s.items())
        pointers = {n for n, v in named if "dtype" in v and len(v) == 1}
        job = {"path": str(path), "host": facts["host"], "values": signatures[:3],
               "tensors": sorted(pointers), "seconds": SECONDS}  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        found: dict[str, Any] = {"imported": False, "ran": False, "message": ""}
        for line in self.process.stdout:
            if line.startswith("{"):
                found |= json.loads(line)
                if found.pop("done", False):
                    break
        crashed = found.pop("crashed", "")
        return found | ({"message": f"{crashed}; {found['message']}"} if crashed else {})


def row_of(
    package: str, path: str, document: Document, file: Path, caller: Caller
) -> dict[str, Any]:
    """One kernel."""
    row = {"package": package, "path": path, "kernel": document.space.name, "written": False}
    try:
        text = generate(document, "triton", {})
    except TileloreError as error:
        return {**row, "imported": False, "ran": False, "message": error.text}
    file.write_text(text, encoding="utf-8")
    host = text.partition("\ndef " + stated_facts(text, "x")["host"] + "(")[2].partition(")")[0]
    return {**row, "written": True, "grid_is_argument": "grid: tuple" in host,
            **caller.ask(file, document)}  # fmt: skip


def markdown(rows: list[dict[str, Any]]) -> str:
    """Counts per package, then what did not run."""
    head = "| package | kernels | written | import | run in the interpreter | grid is an argument |"
    lines = [head, "|---|---:|---:|---:|---:|---:|"]
    for package, _ in PACKAGES:
        mine = [row for row in rows if row["package"] == package]
        counts = [sum(bool(row.get(key)) for row in mine)
                  for key in ("written", "imported", "ran", "grid_is_argument")]  # fmt: skip
        lines.append(f"| {package} | {len(mine)} | " + " | ".join(map(str, counts)) + " |")
    lines += ["", "What did not run on the derived launches:", ""]
    reasons = Counter(
        (str(row["message"])[:140].replace("|", "/"), row["kernel"])
        for row in rows
        if not row["ran"]
    )
    lines += [f"- `{kernel}`: {message}" for message, kernel in sorted(reasons)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, print progress, write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    only = parser.parse_args().only
    rows: list[dict[str, Any]] = []
    caller = Caller()
    with tempfile.TemporaryDirectory(prefix="tilelore-modules-") as folder:
        for package, path, document in documents():
            if only and document.space.name not in only:
                continue
            file = Path(folder) / f"module_{len(rows)}.py"
            rows.append(row_of(package, path, document, file, caller))
            row = rows[-1]
            print("ok " if row["ran"] else "-- ", row["kernel"], row.get("message", ""), flush=True)
    report = {
        "machine": {"system": platform.platform(), "cores": os.cpu_count(),
                    "python": platform.python_version()},
        "versions": {name: version(name) for name in ("tilelore", "torch", "triton")},
        "rows": rows,
    }  # fmt: skip
    if not only:
        (HERE / "results.json").write_text(json.dumps(report, indent=1) + "\n")
        (HERE / "table.md").write_text(markdown(rows))


if __name__ == "__main__":
    main()
