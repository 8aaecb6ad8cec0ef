"""Quotients and remainders of negative integers: cuTile rounds down, Triton's operators do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generators.compile_pool import available
from generators.emit import emit_program
from generators.interpret.client import Interpreter
from generators.interpret.compare import Plan, cross_check
from generators.lower.roads import Manner
from generators.lower.triton import to_triton
from kb.ir import Kernel
from tests.generators.reference.sources import cutile

pytestmark = pytest.mark.skipif(not available("triton"), reason="triton is not installed")


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    """One process for all rows."""
    with Interpreter(seconds=30) as started:
        yield started


def lanes(expression: str) -> Kernel:
    """A kernel that stores an expression of `x`, the numbers from -8 to 7, of `low`, below zero,
    and of the scalar `n`, from 1 up.
    """
    return cutile(f"""
@ct.kernel
def k(X, Out, n: int, G: ConstInt):
    x = ct.arange(16, dtype=ct.int32) - 8
    low = n - 40
    seen = ct.load(X, index=(ct.bid(0),), shape=(16,))
    value = {expression}
    ct.store(Out, index=(ct.bid(0),), tile=seen * 0.0 + value.astype(ct.float32))
""")


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("x // 3", id="quotient by a number"),
        pytest.param("x % 3", id="remainder by a number"),
        pytest.param("ct.cdiv(x, 3)", id="ceiling by a number"),
        pytest.param("x // n * 100 + x % n", id="by a scalar"),
        pytest.param("x // low * 100 + x % low", id="by a negative scalar"),
        pytest.param("ct.cdiv(x, low)", id="ceiling by a negative scalar"),
        pytest.param("x // G * 100 + x % G", id="by a constant of the launch"),
        pytest.param("x * 0 + low // 3 * 100 + low % 3", id="of scalars"),
        pytest.param("x * 0 + low // (-7) * 100 + low % (-7)", id="of scalars, both below zero"),
        pytest.param("x.astype(ct.float32) // 3.0", id="of floats"),
    ],
)
def test_both_sides_round_down(expression: str, interpreter: Interpreter) -> None:
    verdict = cross_check(lanes(expression), interpreter, Plan(seed=5))
    assert verdict.verified, verdict.reason


def written(expression: str, manner: Manner | None = None) -> str:
    return emit_program(to_triton(lanes(expression), manner).kernel, "triton")


@pytest.mark.parametrize(
    ("expression", "plain"),
    [
        pytest.param("x * 0 + ct.bid(0) // 3", True, id="a block"),
        pytest.param("x * 0 + ct.bid(0) % (X.shape[0] + 1)", True, id="an extent"),
        pytest.param("x * 0 + ct.bid(0) // G", True, id="a constant, asserted to be positive"),
        pytest.param("ct.arange(16, dtype=ct.int32) // 4", True, id="lanes"),
        pytest.param("x * 0 + ct.bid(0) // n", False, id="a scalar of unknown sign"),
        pytest.param("x // 4", False, id="lanes from below zero"),
        pytest.param("ct.maximum(x, 0) // 4", True, id="kept from below zero"),
        pytest.param("ct.minimum(x, 4) // 4", False, id="kept from above"),
        pytest.param("x * 0 + (ct.bid(0) - 1) // 4", False, id="a difference"),
    ],
)
def test_the_plain_operator_stays_where_signs_are_proved(expression: str, plain: bool) -> None:
    text = written(expression)
    assert ("tl.where(" not in text) is plain
    assert ("tl.static_assert(G > 0)" in text) is ("G" in expression)


def test_a_host_may_vouch_for_a_sign() -> None:
    text = written("x * 0 + ct.bid(0) // n", Manner(natural=frozenset({"n"})))
    assert "tl.program_id(0) // n" in text
