"""Draw kernels by seed for a gold of one's own, from files or kernels that no gold has touched.

Usage: python -m benchmarks.gold.draw --corpus FOLDER --seed N [--cutile N] [--triton N]
[--gold GOLD.yaml …] [--kernels] [--longest LINES]

FOLDER holds the unpacked packages, each in a folder of its own name. Packages are weighed alike.
Only kernels of 25 to LINES (110) lines that no function of their file calls; backends of other
vendors' chips are left out. With --kernels, a file that a gold has touched may still give its other
kernels: small packages have no untouched file left. Nothing is read by tilelore.
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from random import Random

from benchmarks.gold.entries import load

SHORTEST, LONGEST = 25, 110
"""Lines of a kernel that may be drawn, when nothing else is asked."""

VENDORS = frozenset(
    {
        "ascend", "hygon", "kunlunxin", "cambricon", "metax", "mthreads", "iluvatar", "arm", "aipu",
        "sunrise", "tsingmicro", "spacemit", "enflame", "thead", "amd",
    }
)  # fmt: skip
"""Last parts of folder names that hold kernels for chips without a CUDA target."""

POOLS = {
    "ct.kernel": ("liger_kernel", "tilegym"),
    "triton.jit": (
        "fla_core", "flag_gems", "liger_kernel", "unsloth", "xformers", "torchao", "sageattention",
        "gemlite", "attn_gym",
    ),
}  # fmt: skip

Drawn = tuple[str, str, str, int, int]
"""Package, file, kernel, first and last line."""


def kernels(package: Path, mark: str, known: set[str], longest: int = LONGEST) -> list[Drawn]:
    """Every kernel of a package that may be drawn.

    ``known`` holds what golds have touched: a file, or a kernel of it as ``FILE::KERNEL``.
    """
    found: list[Drawn] = []
    for path in sorted(package.rglob("*.py")):
        shown = str(path.relative_to(package))
        foreign = any(part.split("_")[-1] in VENDORS for part in Path(shown).parts)
        text = path.read_text(encoding="utf-8", errors="ignore")
        if "test" in shown or foreign or shown in known or mark not in text:
            continue
        tree = ast.parse(text)
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = {func.id for func in calls if isinstance(func, ast.Name)}
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or node.name in called:
                continue
            last = node.end_lineno or node.lineno
            marked = any(mark in ast.unparse(item) for item in node.decorator_list)
            fresh = f"{shown}::{node.name}" not in known
            if marked and fresh and SHORTEST <= last - node.lineno + 1 <= longest:
                found.append((package.name, shown, node.name, node.lineno, last))
    return found


def main() -> None:
    """Print the drawn kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--cutile", type=int, default=0)
    parser.add_argument("--triton", type=int, default=0)
    parser.add_argument("--gold", type=Path, action="append", default=[])
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--longest", type=int, default=LONGEST)
    given = parser.parse_args()
    entries = [entry for gold in given.gold for entry in load(gold)]
    known = {
        f"{entry['file']}::{entry['kernel']}" if given.kernels else str(entry["file"])
        for entry in entries
    }
    rng = Random(given.seed)
    for mark, count in (("ct.kernel", given.cutile), ("triton.jit", given.triton)):
        pools = [
            kernels(given.corpus / name, mark, known, given.longest)
            for name in (POOLS[mark] if count else ())
        ]
        for turn in range(count):
            pools = [pool for pool in pools if pool]
            if not pools:
                parser.error(f"only {turn} kernels of {mark} are left to draw")
            pool = pools[turn % len(pools)]
            drawn = rng.choice(pool)
            pool.remove(drawn)
            print(*drawn)


if __name__ == "__main__":
    main()
