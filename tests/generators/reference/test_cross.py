"""cuTile kernels lowered to Triton: both sides compute the same on derived launches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from generators.compile_pool import available
from generators.interpret.client import Interpreter
from generators.interpret.compare import Plan, cross_check, difference
from generators.interpret.model import BindingKind, Bound
from generators.lower.roads import Road
from kb.errors import CompilerFailed
from kb.ir import Kernel
from tests.generators.reference import sources

pytestmark = pytest.mark.skipif(not available("triton"), reason="triton is not installed")


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    """One process for all rows."""
    with Interpreter(seconds=30) as started:
        yield started


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(sources.SOFTMAX, id="rows by element, padding minus infinity"),
        pytest.param(sources.MATMUL, id="tile indices, transposed operand, dtype of the output"),
        pytest.param(sources.PARTS, id="a part of a tile, tiles joined"),
        pytest.param(sources.HEADS, id="axis order, named transposition, tanh"),
        pytest.param(sources.GUARDED, id="padding by a parameter, a loop that is split"),
        pytest.param(sources.SLICED, id="a slice of an array, an empty shape"),
    ],
)
@pytest.mark.parametrize("road", list(Road))
def test_both_sides_agree(kernel: Kernel, road: Road, interpreter: Interpreter) -> None:
    fixed = {"sorted": True, "below": 12}
    verdict = cross_check(kernel, interpreter, Plan(seed=3, fixed=fixed, road=road))
    assert verdict.verified, verdict.reason
    assert verdict.outputs == ("C",) if kernel is sources.MATMUL else ("Out",)


@pytest.mark.parametrize("road", list(Road))
def test_a_list_of_arrays_goes_by_tables(road: Road, interpreter: Interpreter) -> None:
    kernel = sources.cutile("""
@ct.kernel
def k(Xs, Ys, N: ConstInt):
    for i in range(len(Xs)):
        for j in range(ct.num_tiles(Xs[i], axis=0, shape=(N, 16))):
            x = ct.load(Xs[i], index=(j, 0), shape=(N, 16), padding_mode=ct.PaddingMode.ZERO)
            ct.store(Ys[i], index=(j, 0), tile=(x * 2.0).astype(Ys[i].dtype))
""")
    verdict = cross_check(kernel, interpreter, Plan(road=road))
    assert verdict.verified, verdict.reason
    assert verdict.outputs == ("Ys[0]", "Ys[1]")


def test_a_program_that_fails_or_hangs_is_recorded(interpreter: Interpreter) -> None:
    head = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef k(X):\n"
    given = {"X": np.zeros(4, np.float32)}
    bound = (Bound("X", BindingKind.ARRAY, "X"),)
    with pytest.raises(CompilerFailed, match="no_such_function"):
        interpreter.run(head + "    tl.no_such_function(X)\n", "k", (1,), bound, given)
    with Interpreter(seconds=2) as short, pytest.raises(CompilerFailed, match="ran past 2 s"):
        short.run("while True:\n    pass\n", "k", (1,), (), given)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param([1.0, 2.0], [1.0, 2.5], 0.25, id="relative to the largest"),
        pytest.param([1.0, np.nan], [1.0, np.nan], 0.0, id="nan where nan is"),
        pytest.param([1.0, np.nan], [1.0, 2.0], np.inf, id="nan on one side"),
        pytest.param([1.0, np.inf], [1.0, -np.inf], np.inf, id="other sign of infinity"),
    ],
)
def test_difference(one: list[float], other: list[float], expected: float) -> None:
    assert difference(np.array(one, np.float32), np.array(other, np.float32)) == expected
