"""The written file: its host checks, and how arrays of a program tell their shapes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib import util
from pathlib import Path

import pytest

from api.generate import generate
from generators.array_shapes import ArrayShapes
from generators.flag_slice import read_without
from generators.module import formatted
from kb.analysis.inline import inline
from kb.errors import CannotEmit
from kb.ir import Kernel
from kb.ir_text import parse
from tests.api.design_documents import attention, layer_norm

SCRIPT = Path(__file__).with_name("host_calls.py")
ROOT = SCRIPT.parent.parent.parent


def program() -> Kernel:
    return inline(parse(f"{attention().program}\n"))


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the host of layer norm answers to wrong calls."""
    if util.find_spec("numpy") is None:
        pytest.skip("Triton's interpreter needs NumPy")
    path = tmp_path_factory.mktemp("host") / "ln.py"
    path.write_text(generate(layer_norm(), "triton"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path)], capture_output=True, text=True, check=True,
        env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=120,
    )  # fmt: skip
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        pytest.param("list", "TypeError: x is a list, not a tensor", id="no tensor"),
        pytest.param("dtype", "TypeError: x is torch.int32; the kernel takes", id="dtype"),
        pytest.param("scalar", "ValueError: x has shape (); its last axis is empty", id="no axis"),
        pytest.param("empty axis", "ValueError: x has shape (2, 0); its last", id="empty axis"),
        pytest.param("weight", "ValueError: weight has shape (7,), not (8,)", id="weight"),
        pytest.param("weight rank", "ValueError: weight has 2 axes, not 1", id="weight rank"),
        pytest.param("eps", "ValueError: eps is 0.0; a constant row", id="eps"),
        pytest.param("nan", "ValueError: eps is nan", id="nan"),
        pytest.param("device", "ValueError: weight is on meta and x on cpu", id="device"),
        pytest.param("long", "ValueError: a row of 70000 does not fit", id="long row"),
    ],
)
def test_wrong_calls(said: dict[str, object], call: str, answer: str) -> None:
    assert str(said[call]).startswith(answer)


def test_no_rows_is_no_work(said: dict[str, object]) -> None:
    assert said["no rows"] == [0, 8]


def test_what_is_not_python_is_not_written() -> None:
    with pytest.raises(CannotEmit, match="could not be formatted"):
        formatted("def (")


def test_shapes_follow_tile_indices() -> None:
    shapes = ArrayShapes(program())
    assert shapes.inputs == ("A", "B", "C")
    assert shapes.outputs == ("O",)
    assert shapes.shape("O") == (("A", 0), ("A", 1), ("A", 2), ("A", 3))
    assert shapes.alike(("C", 2)) == ("B", 2), "both are walked by the loop"
    assert shapes.alike(("B", 3)) == ("A", 3), "through the order of the load"
    assert shapes.resident == (("1", "1", "TM", "D"),)
    assert shapes.streamed == (("1", "1", "D", "TN"), ("1", "1", "TN", "D"))


@cache
def without(flag: str) -> frozenset[str]:
    return read_without(program(), flag)


@pytest.mark.parametrize(
    ("flag", "scalar", "read"),
    [
        pytest.param("LOWER", "shift", False, id="the mask alone"),
        pytest.param("LOWER", "factor", True, id="every score"),
        pytest.param("FULL", "shift", True, id="another flag"),
    ],
)
def test_what_a_flag_switches_off(flag: str, scalar: str, read: bool) -> None:
    assert (scalar in without(flag)) is read
