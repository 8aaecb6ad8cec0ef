"""Record anew what the originals of the ratchet's sample compile to. CI never runs this.

    python -m benchmarks.roundtrip.sample [--jobs 2] [--cache DIR]
        [--file tests/roundtrip/sample.json] [--add PACKAGE PATH KERNEL TARGETS]

A kernel whose regenerated machine code differs from the original is refused: the sample holds only
kernels that are identical. To take a kernel off, remove its line from the file. TARGETS are
separated by commas.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from api.corpora import cache_folder
from api.ratchet import Ratchet, Sample, Sampled, accept, load, save, toolchains
from api.roundtrip import Checker, Request
from api.source_files import SourceTree, source_tree
from generators.compile_pool import CompilerPool, PoolSettings
from generators.emit_process import EmitProcess
from kb.errors import TileloreError

ROOT = Path(__file__).resolve().parent.parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when the file was written; 1 when a kernel cannot be in it, 2 for bad input."""
    options = _options(arguments)
    try:
        sample = load(options.file)
        added = [_named(*row) for row in options.add]
        kernels, problems = _recorded((*sample.kernels, *added), options)
        for problem in problems:
            print(problem, file=sys.stderr)
        if problems:
            return 1
        with CompilerPool(PoolSettings(cache=options.cache)) as pool:
            versions = toolchains(pool, kernels)
        save(options.file, Sample(toolchains=versions, kernels=tuple(kernels)))
    except TileloreError as error:
        print(error.text, file=sys.stderr)
        return error.exit_code
    print(f"{options.file}: {len(kernels)} kernels")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roundtrip.sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cache", type=Path, default=cache_folder() / "roundtrip")
    parser.add_argument("--file", type=Path, default=ROOT / "tests/roundtrip/sample.json")
    parser.add_argument(
        "--add", nargs=4, action="append", default=[],
        metavar=("PACKAGE", "PATH", "KERNEL", "TARGETS"),
    )  # fmt: skip
    return parser.parse_args(arguments)


def _named(package: str, path: str, kernel: str, targets: str) -> Sampled:
    wanted = dict.fromkeys(targets.split(","), "")
    return Sampled(package=package, path=path, kernel=kernel, dialect="", targets=wanted)


def _recorded(
    kernels: Sequence[Sampled], options: argparse.Namespace
) -> tuple[list[Sampled], list[str]]:
    """Every kernel with its digests, and what is wrong with those that cannot be recorded."""
    trees = {name: source_tree(name) for name in dict.fromkeys(k.package for k in kernels)}
    settings = PoolSettings(cache=options.cache, workers=options.jobs)
    with (
        CompilerPool(settings) as pool,
        EmitProcess() as emitter,
        ThreadPoolExecutor(options.jobs) as threads,
    ):
        step = _Step(pool, emitter, options.cache)
        rows = list(threads.map(lambda kernel: step.run(kernel, trees[kernel.package]), kernels))
    return [kernel for kernel, _ in rows], [problem for _, problem in rows if problem]


class _Step:
    """One kernel: accept it, then check it against what was accepted."""

    def __init__(self, pool: CompilerPool, emitter: EmitProcess, cache_: Path) -> None:
        self.pool, self.emitter, self.cache = pool, emitter, cache_

    def run(self, kernel: Sampled, tree: SourceTree) -> tuple[Sampled, str]:
        """The kernel as recorded, and a problem or nothing."""
        request = Request(tree=tree, cache=self.cache)
        try:
            found = accept(kernel, tree, Checker(request, self.pool, self.emitter))
            versions = toolchains(self.pool, [found])
            problem = Ratchet(self.pool, self.emitter, versions).check(found, tree)
        except TileloreError as error:
            return kernel, error.text
        print(f"{found.id}: {problem or 'identical'}", file=sys.stderr, flush=True)
        return found, f"{found.id}: {problem}" if problem else ""


if __name__ == "__main__":
    sys.exit(main())
