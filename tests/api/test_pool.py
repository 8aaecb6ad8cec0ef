"""Processes of a pool do not outlive what started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from api.pool import Work, each

ROOT = Path(__file__).parents[2]
OWNER = """
import os, time
from api.pool import executor

def busy():
    open(FOLDER + "/" + str(os.getpid()), "w").close()
    time.sleep(600)

if __name__ == "__main__":
    with executor(2) as pool:
        pool.submit(busy)
        pool.submit(busy).result()
"""
PATIENCE_S = 60.0


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_workers_end_when_their_owner_is_killed(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    script = tmp_path / "owner.py"
    script.write_text(OWNER.replace("FOLDER", repr(str(seen))))
    owner = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        assert _until(lambda: len([*seen.iterdir()]) == 2)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    workers = [int(file.name) for file in seen.iterdir()]
    assert _until(lambda: not any(_alive(worker) for worker in workers))


def _until(holds: Callable[[], bool]) -> bool:
    """Whether something comes true while one would wait for it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


def _alive(process: int) -> bool:
    """Whether a process runs; one that ended and is not collected does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def _busy(_: str) -> str:
    while True:
        pass


def _asleep(_: str) -> str:
    time.sleep(0.3)
    return "done"


def _failed(thing: str, why: str) -> str:
    return f"{thing}: {why}"


@pytest.mark.skipif(sys.platform == "win32", reason="no timers of the process")
def test_the_time_of_a_thing_is_that_of_the_processor() -> None:
    """Who works for too long is stopped; who waits for the processor is not."""
    assert Work(_busy, _failed, 0.1)("one") == "one: reading it took longer than 0.1 s."
    assert Work(_asleep, _failed, 0.1)("one") == "done"


def _process(_: int) -> str:
    return str(os.getpid())


def _missed(_: int, why: str) -> str:
    return why


@pytest.mark.parametrize("many", [8, 9, 12])
def test_processes_make_room_for_fresh_ones(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """Every thing is worked on, however many are left when the processes have done their share."""
    monkeypatch.setattr("api.pool.PER_PROCESS", 2)
    found = dict(each(Work(_process, _missed), range(many), jobs=2))
    assert sorted(found) == list(range(many))
    assert len(set(found.values())) > 2
