"""Compiler processes: what changes machine code and what does not, and how a compile may end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

import pytest

from generators.compile_model import CompileJob, Outcome, job_from_json, job_to_json
from generators.compile_pool import CompilerPool, PoolSettings, available
from kb.errors import CompilerFailed
from tests.generators.compile_samples import CRASH, CUTILE, GREEDY, HANG, TRITON, job

needs_cutile = pytest.mark.skipif(
    not available("cutile"), reason="the cutile extra is not installed"
)
needs_triton = pytest.mark.skipif(not available("triton"), reason="triton is not installed")
BOTH = [
    pytest.param("cutile", marks=needs_cutile, id="cutile"),
    pytest.param("triton", marks=needs_triton, id="triton"),
]
TEXT = {"cutile": CUTILE, "triton": TRITON}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompilerPool]:
    settings = PoolSettings(cache=tmp_path_factory.mktemp("cache"), seconds=20, reuse=False)
    with CompilerPool(settings) as opened:
        yield opened


@pytest.mark.parametrize("dialect", BOTH)
def test_names_and_comments_do_not_reach_machine_code(pool: CompilerPool, dialect: str) -> None:
    changed = "# a comment\n\n" + re.sub(r"\b(at|i)\b", "somewhere", TEXT[dialect])
    assert changed != TEXT[dialect]
    first, second = pool.compile(job(dialect)), pool.compile(job(dialect, changed))
    assert first.machine is not None
    assert first.machine == second.machine
    assert first.front_end == second.front_end


@pytest.mark.parametrize("dialect", BOTH)
def test_meaning_reaches_machine_code(pool: CompilerPool, dialect: str) -> None:
    changed = TEXT[dialect].replace("* factor", "+ factor")
    first, second = pool.compile(job(dialect)), pool.compile(job(dialect, changed))
    assert first.machine is not None
    assert second.machine is not None
    assert first.machine.digest != second.machine.digest
    assert first.front_end != second.front_end


@pytest.mark.parametrize("dialect", BOTH)
def test_compile_facts(pool: CompilerPool, dialect: str) -> None:
    machine = pool.compile(job(dialect)).machine
    assert machine is not None
    assert machine.registers is not None
    assert 0 < machine.registers <= 255
    assert machine.stack_bytes == 0


@needs_cutile
def test_tile_ir_sees_a_padding_mode_that_machine_code_may_hide(pool: CompilerPool) -> None:
    padded = CUTILE.replace("shape=(TILE,))", "shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)")
    assert pool.compile(job("cutile")).front_end != pool.compile(job("cutile", padded)).front_end


@needs_triton
@pytest.mark.parametrize(
    ("head", "outcome", "words"),
    [
        pytest.param("raise ValueError('no')\n", Outcome.REFUSED, "ValueError: no", id="refused"),
        pytest.param(CRASH, Outcome.CRASHED, "SIGSEGV", id="crash"),
        pytest.param(GREEDY, Outcome.REFUSED, "MemoryError", id="memory"),
    ],
)
def test_how_a_compile_may_end(pool: CompilerPool, head: str, outcome: Outcome, words: str) -> None:
    result = pool.compile(job("triton", head + TRITON))
    assert result.outcome is outcome
    assert words in result.message
    assert pool.compile(job("triton")).done


@needs_cutile
def test_what_a_target_lacks_is_told_apart(pool: CompilerPool) -> None:
    text = CUTILE.replace("* factor", ".astype(ct.float8_e4m3fn).astype(ct.float32)")
    assert text != CUTILE
    lacking = pool.compile(replace(job("cutile", text), target="sm_80"))
    assert lacking.outcome is Outcome.UNSUPPORTED
    assert pool.compile(replace(job("cutile", text), target="sm_90")).done


@needs_triton
def test_a_hang_is_ended_and_recorded(tmp_path: Path) -> None:
    with CompilerPool(PoolSettings(cache=tmp_path, seconds=1)) as quick:
        result = quick.compile(job("triton", HANG + TRITON))
    assert result.outcome is Outcome.TIMEOUT
    assert "1 s" in result.message


@needs_triton
def test_a_hang_ends_by_itself_when_nobody_is_left_to_end_it() -> None:
    command = [sys.executable, "-m", "generators.compile_worker", "triton", "", "1", str(1 << 36)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdout.readline()
        worker.stdin.write(json.dumps([job_to_json(job("triton", HANG + TRITON))]) + "\n")
        worker.stdin.flush()
        children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
        while not (child := children.read_text().split()):
            time.sleep(0.01)
        worker.kill()
    status = Path("/proc", child[0], "status")
    with suppress(OSError):  # it is gone
        for _ in range(1500):
            if "\nState:\tZ" in status.read_text():
                return
            time.sleep(0.02)
    if not status.exists():
        return
    os.kill(int(child[0]), signal.SIGKILL)
    pytest.fail("the compile goes on")


@needs_triton
def test_a_job_may_be_given_less_time_than_others(pool: CompilerPool) -> None:
    result = pool.compile(replace(job("triton", HANG + TRITON), most_seconds=0.5))
    assert result.outcome is Outcome.TIMEOUT
    assert "0.5 s" in result.message


@needs_triton
def test_jobs_that_share_a_process_end_each_for_itself(pool: CompilerPool) -> None:
    """A crash and a hang in the middle: the others are compiled, in their order."""
    texts = ("", CRASH + TRITON, "", HANG + TRITON, "")
    jobs = [replace(job("triton", text), most_seconds=8.0) for text in texts]
    jobs[2], jobs[4] = (replace(jobs[0], target=target) for target in ("sm_80", "sm_100"))
    results = pool.compile_all(jobs)
    assert [result.outcome for result in results] == [
        Outcome.DONE, Outcome.CRASHED, Outcome.DONE, Outcome.TIMEOUT, Outcome.DONE,
    ]  # fmt: skip
    alone = [pool.compile(replace(one, most_seconds=None)) for one in (jobs[0], jobs[4])]
    assert [a.machine for a in alone] == [results[0].machine, results[4].machine]


@needs_triton
def test_results_are_remembered_by_content(tmp_path: Path) -> None:
    with CompilerPool(PoolSettings(cache=tmp_path)) as first:
        fresh = first.compile(job("triton"))
    with CompilerPool(PoolSettings(cache=tmp_path)) as second:
        known = second.compile(job("triton"))
    assert fresh.seconds > 0
    assert known.seconds == 0
    assert known.machine == fresh.machine


@needs_triton
def test_what_is_too_much_work_stops_after_the_front_end(tmp_path: Path) -> None:
    """A loop that is unrolled is the work of all its rounds; what was stopped is not remembered."""
    loop = "    for _ in tl.static_range(BLOCK):\n        factor *= factor\n"
    unrolled = TRITON.replace("    tl.store", f"{loop}    tl.store")
    with CompilerPool(PoolSettings(cache=tmp_path)) as pool:
        small = pool.compile(replace(job("triton"), most_work=60))
        large = pool.compile(replace(job("triton", unrolled), most_work=60))
        asked = pool.compile(job("triton", unrolled))
    assert small.done
    assert large.outcome is Outcome.LARGE
    assert large.machine is None
    assert large.front_end is not None
    assert asked.done
    assert asked.front_end == large.front_end


def test_a_missing_compiler_is_said(tmp_path: Path) -> None:
    lost = CompileJob(**{**vars_of(job("triton")), "dialect": "metal"})
    with CompilerPool(PoolSettings(cache=tmp_path)) as pool, pytest.raises(CompilerFailed):
        pool.compile(lost)


def vars_of(found: CompileJob) -> dict[str, object]:
    """Fields of a job by name."""
    return {name: getattr(found, name) for name in CompileJob.__dataclass_fields__}


@pytest.mark.parametrize("dialect", ["cutile", "triton"])
def test_jobs_travel(dialect: str) -> None:
    assert job_from_json(job_to_json(job(dialect))) == job(dialect)
