"""What a flip computes, in the interpreter: the same, and a change that is none of a rewrite's is
seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.flips.numerics import compare
from generators.interpret.client import Interpreter
from generators.rewrites.registry import apply
from kb.ir_text import parse, to_text
from tests.laws.test_real_file import FORWARD, WITH_STATISTIC, kernels
from tests.laws.test_rewrites import FLIPS, UNIT_AXIS, kernels_of


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    """Starts its process for pointer programs only."""
    with Interpreter() as one:
        yield one


@pytest.mark.parametrize("axis", sorted(FLIPS["flash"]))
def test_a_flip_of_attention_computes_the_same(axis: str, interpreter: Interpreter) -> None:
    kernel = kernels()[FORWARD]
    _, wanted = FLIPS["flash"][axis]
    found = compare(kernel, apply(kernel, axis, wanted), axis, interpreter)
    assert found.same is True, found
    assert found.launches >= 2
    assert 0 < found.reached == found.altered
    assert "Out" in found.outputs


def test_a_statistic_in_another_base_is_compared_in_one(interpreter: Interpreter) -> None:
    kernel = kernels()[WITH_STATISTIC]
    found = compare(kernel, apply(kernel, "math_approximation", "exp"), "math_approximation",
                    interpreter)  # fmt: skip
    assert found.same is True
    assert found.rebased == ["LSE"]


def test_a_view_that_only_relabels_axes_is_seen(interpreter: Interpreter) -> None:
    """The tile as stored, under exchanged extents: what a flip did before axes of extent one were
    told from those of the tile."""
    (kernel,) = kernels_of(UNIT_AXIS).values()
    viewed = apply(kernel, "operand_layout", "transpose in the load view (order=)")
    text = to_text(viewed)
    order = next(line for line in text.splitlines() if "load_tile(array %k" in line)
    wrong = text.replace(order, order.replace("order ", "latency ", 1))
    assert wrong != text
    found = compare(kernel, parse(wrong), "operand_layout", interpreter)
    assert found.same is False
    assert compare(kernel, viewed, "operand_layout", interpreter).same is True
