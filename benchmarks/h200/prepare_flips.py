"""Make the job folder of benchmarks/h200/flips.py: the eight kernels of the GPU sample as they are
and with every design axis flipped that a rewrite can flip in them.

    .venv/bin/python -m benchmarks.h200.prepare_flips OUT_FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api.corpora import fetch
from api.source_files import FolderModules, module_text
from benchmarks.h200.prepare import KERNELS
from extractors.detect import decisions_of
from extractors.read import read
from generators.emit import emit_program
from generators.rewrites.registry import apply, axes
from kb.analysis.facts import Facts
from kb.errors import CannotEmit
from kb.ir import Kernel


def kernels() -> Iterator[Kernel]:
    """The kernels of the GPU sample."""
    folder = fetch("tilegym==1.5.1").folder
    for relative, names in KERNELS.items():
        text = module_text(folder, folder / relative)
        assert text is not None, relative
        for kernel in read(text, FolderModules(folder)).kernels:
            if kernel.name in names:
                yield kernel


def flipped(kernel: Kernel) -> Iterator[tuple[str, str, Kernel]]:
    """Axis, value and program of every flip that applies."""
    seen = {(d.axis, d.value) for d in decisions_of(Facts(kernel))}
    for axis, values in axes().items():
        has = {value for name, value in seen if name == axis} & set(values)
        for value in values:
            if len(has) != 1 or value in has:
                continue
            try:
                yield axis, value, apply(kernel, axis, value)
            except CannotEmit:
                continue


def main(out: Path) -> None:
    """Write one file per program and the index."""
    index: list[dict[str, Any]] = []
    for kernel in kernels():
        _write(out, f"original/{kernel.name}.py", kernel)
        for axis, value, program in flipped(kernel):
            side = f"flip_{axis}"
            _write(out, f"{side}/{kernel.name}.py", program)
            index.append({"kernel": kernel.name, "axis": axis, "value": value, "side": side,
                          "parameters": kernel.entry.parameter_names,
                          "flipped_parameters": program.entry.parameter_names})  # fmt: skip
    (out / "flips.json").write_text(json.dumps(index, indent=1) + "\n")
    print(f"{len(index)} flips of {len({row['kernel'] for row in index})} kernels in {out}")


def _write(out: Path, name: str, kernel: Kernel) -> None:
    target = out / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(emit_program(kernel, kernel.dialect), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
