"""CUDA kernels of the pinned packages: how many are read, how much of them stays opaque, and why.

Usage: python -m benchmarks.cuda.run [--sample N] [--out FOLDER]

A part is a folder of a package; of one that holds machine-written files beside others, N files are
drawn by seed. Files past LARGEST bytes are machine-written and only counted. A kernel is read when
its body is; the share is opaque operations over all operations of the kernels. Nothing is compiled
or run. Writes results.json and table.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from api.corpora import fetch, pinned
from api.cuda_source import SUFFIXES, Headers
from extractors.cuda.read import read_cuda
from kb.errors import InputError
from kb.ir import Kernel, kernel_ops
from kb.ops import TERMINATORS, OpKind

HERE = Path(__file__).resolve().parent
SEED = 20261122
LARGEST = 200_000
"""Bytes past which a file is machine-written."""

REASONS = 12
"""Reasons that are written down per part."""


@dataclass(frozen=True)
class Part:
    """A folder of a package; `drawn` when only a sample of its files is read."""

    package: str
    folder: str
    drawn: bool = False


PARTS = (
    Part("flashinfer-python", "flashinfer/data/include/flashinfer"),
    Part("flashinfer-python", "flashinfer/data/csrc", drawn=True),
    Part("flash-attn", "csrc/flash_attn"),
    Part("flash-attn", "csrc/layer_norm"),
    Part("torchao", "torchao/csrc"),
)


@dataclass
class Count:
    """What was read of one part."""

    package: str
    folder: str
    files: int = 0
    large: int = 0
    refused: int = 0
    kernels: int = 0
    bodies_opaque: int = 0
    operations: int = 0
    opaque: int = 0
    kernels_without_opaque: int = 0
    reasons: list[tuple[str, int]] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Opaque operations over all."""
        return self.opaque / self.operations if self.operations else 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Read every part, write the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=120)
    parser.add_argument("--out", type=Path, default=HERE)
    given = parser.parse_args(argv)
    counts = []
    for part in PARTS:
        counts.append(counted(part, given.sample))
        print(_row(counts[-1]), file=sys.stderr)
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    about = {
        "cpu_seconds": round(cpu.ru_utime + cpu.ru_stime, 1), "seed": SEED,
        "sample": given.sample, "largest_bytes": LARGEST,
        "machine": f"{platform.machine()} {platform.platform()}",
        "python": platform.python_version(),
        "packages": sorted({pinned()[part.package] for part in PARTS}),
    }  # fmt: skip
    rows = [asdict(one) | {"share": round(one.share, 4)} for one in counts]
    text = json.dumps(about | {"parts": rows}, indent=1) + "\n"
    (given.out / "results.json").write_text(text, encoding="utf-8")
    (given.out / "table.md").write_text(table(counts, given.sample), encoding="utf-8")
    return 0


def counted(part: Part, sample: int) -> Count:
    """Everything that is read of one part."""
    root = fetch(pinned()[part.package]).folder
    found = Count(part.package, part.folder)
    reasons: Counter[str] = Counter()
    for path in _files(root, part, sample, found):
        found.files += 1
        inside = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            kernels = read_cuda(text, inside, Headers(root).load).kernels
        except InputError:
            found.refused += 1
            continue
        for kernel in kernels:
            _add(found, kernel, reasons)
    found.reasons = sorted(reasons.items(), key=lambda row: (-row[1], row[0]))[:REASONS]
    return found


def _files(root: Path, part: Part, sample: int, found: Count) -> Iterator[Path]:
    """Files with a kernel, those of a drawn part by seed."""
    several = sorted(p for p in (root / part.folder).rglob("*") if p.suffix in SUFFIXES)
    marked = [p for p in several if "__global__" in p.read_text("utf-8", errors="replace")]
    small = [p for p in marked if p.stat().st_size <= LARGEST]
    found.large = len(marked) - len(small)
    if part.drawn and len(small) > sample:
        small = sorted(Random(SEED).sample(small, sample))
    yield from small


def _add(found: Count, kernel: Kernel, reasons: Counter[str]) -> None:
    ops = [op for op in kernel_ops(kernel) if op.kind not in TERMINATORS]
    opaque = [str(op.attribute("what")) for op in ops if op.kind == OpKind.OPAQUE]
    found.kernels += 1
    if any(what.startswith("body: ") for what in opaque):
        found.bodies_opaque += 1
    found.operations += len(ops)
    found.opaque += len(opaque)
    found.kernels_without_opaque += not opaque
    reasons.update(opaque)


def table(counts: Sequence[Count], sample: int) -> str:
    """The counts as a table, with what most opaque operations are."""
    lines = [
        "| package | folder | files | kernels | no body | without opaque | operations | opaque |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
        *(_row(one) for one in counts),
        "",
    ]
    for one in counts:
        if one.reasons:
            named = ", ".join(f"`{what}` {count}" for what, count in one.reasons[:6])
            lines += [f"Most opaque in {one.folder}: {named}.", ""]
    lines.append(
        f"Of folders with machine-written files {sample} are drawn with seed {SEED}; files past "
        f"{LARGEST // 1000} KB ({sum(one.large for one in counts)}) are not read."
    )
    return "\n".join(lines) + "\n"


def _row(one: Count) -> str:
    cells = [
        one.package, one.folder, one.files, one.kernels, one.bodies_opaque,
        one.kernels_without_opaque, one.operations, f"{one.share:.1%}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
