"""The ratchet: every kernel of the sample is read in full and regenerates to the same machine code.

`python -m benchmarks.roundtrip.sample` rewrites the sample; this test never does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from api.corpora import cache_folder, pinned
from api.ratchet import Ratchet, Sampled, load, save
from api.roundtrip import TARGETS
from api.source_files import SourceTree, source_tree
from api.subjects import subjects_of
from generators.compile_pool import CompilerPool, PoolSettings, available
from generators.emit_process import EmitProcess
from kb.errors import InputError

FILE = Path(__file__).parent / "sample.json"
SAMPLE = load(FILE)
SECONDS = 120.0
CORES = os.cpu_count() or 1
GOOD = """
import triton
import triton.language as tl

@triton.jit
def k(X, Y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, tl.load(X + at, mask=at < n), mask=at < n)
"""

Checks = dict[str, Future[str]]


@pytest.fixture(scope="module")
def trees() -> dict[str, SourceTree]:
    """The packages of the sample that can be had: offline, those in the cache only."""
    found = {}
    for package in sorted({kernel.package for kernel in SAMPLE.kernels}):
        try:
            found[package] = source_tree(package)
        except InputError as problem:
            if "could not download" not in problem.message:
                raise
    return found


@pytest.fixture(scope="module")
def checks(
    trees: dict[str, SourceTree], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Checks]:
    """Every check, started at once on as many processes as there are cores.

    Nothing is remembered between runs unless TILELORE_CACHE says where.
    """
    named = "TILELORE_CACHE" in os.environ
    cache = cache_folder() / "roundtrip" if named else tmp_path_factory.mktemp("compiled")
    settings = PoolSettings(cache=cache, workers=CORES, seconds=SECONDS)
    wanted = [k for k in SAMPLE.kernels if k.package in trees and available(k.dialect)]
    with (
        CompilerPool(settings) as pool,
        EmitProcess() as emitter,
        ThreadPoolExecutor(CORES) as threads,
    ):
        ratchet = Ratchet(pool, emitter, SAMPLE.toolchains)
        yield {k.id: threads.submit(ratchet.check, k, trees[k.package]) for k in wanted}
        threads.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", SAMPLE.kernels, ids=lambda kernel: kernel.id)
def test_machine_code_stays_identical(kernel: Sampled, checks: Checks) -> None:
    if not available(kernel.dialect):
        pytest.skip(f"the compiler of {kernel.dialect} is not installed")
    if kernel.id not in checks:
        pytest.skip(f"offline, and {kernel.package} is not in the cache")
    assert checks[kernel.id].result() == ""


def test_the_sample_is_as_large_and_as_hard_as_it_must_be() -> None:
    assert len({kernel.id for kernel in SAMPLE.kernels}) == len(SAMPLE.kernels) == 65
    assert {kernel.dialect for kernel in SAMPLE.kernels} == set(TARGETS) == set(SAMPLE.toolchains)
    assert {kernel.package for kernel in SAMPLE.kernels} == {
        pinned()[name] for name in ("tilegym", "liger-kernel", "fla-core", "flag-gems")
    }
    attention = [k for k in SAMPLE.kernels if k.path == "tilegym/ops/cutile/attention.py"]
    assert [set(kernel.targets) for kernel in attention] == [set(TARGETS["cutile"])] * 5
    for kernel in SAMPLE.kernels:
        assert kernel.signature is not None
        assert all(len(digest) == 64 for digest in kernel.targets.values())


def test_the_sample_reads_back_as_it_is_written(tmp_path: Path) -> None:
    save(tmp_path / "again.json", SAMPLE)
    assert (tmp_path / "again.json").read_bytes() == FILE.read_bytes()


@pytest.mark.skipif(not available("triton"), reason="triton is not installed")
@pytest.mark.parametrize(
    ("text", "toolchain", "said"),
    [
        pytest.param(GOOD, "another", "", id="other compiler, both are compiled"),
        pytest.param(GOOD, "same", "sm_90: machine code differs", id="same compiler"),
        pytest.param(
            GOOD.replace("    at =", "    first, *rest = 1, 2\n    at ="),
            "same",
            "not read in full",
            id="opaque",
        ),
    ],
)
def test_what_the_ratchet_says(tmp_path: Path, text: str, toolchain: str, said: str) -> None:
    (tmp_path / "k.py").write_text(text)
    tree = source_tree(str(tmp_path / "k.py"))
    (subject,) = subjects_of(tree.root, tree.files[0])
    kernel = Sampled(
        package="here==1", path="k.py", kernel="k", dialect="triton",
        targets={"sm_90": "0" * 64}, signature=subject.signatures[0],
    )  # fmt: skip
    with CompilerPool(PoolSettings(cache=tmp_path)) as pool, EmitProcess() as emitter:
        versions = {"triton": pool.toolchain("triton") if toolchain == "same" else toolchain}
        found = Ratchet(pool, emitter, versions).check(kernel, tree)
    assert found.startswith(said) if said else found == ""
