"""The reference interpreter: operations against NumPy, accesses, control flow, refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from generators.evaluate import EvaluationError, Limits, Tensor, run
from generators.reference.values import rounded
from tests.generators.reference.sources import MATMUL, SOFTMAX, cutile, on_tile, triton

Array = NDArray[np.float32]
X = np.random.default_rng(7).uniform(0.5, 2.0, (4, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("x * 2.0 - x / 4", lambda x: x * 2 - x / 4, id="arithmetic"),
        pytest.param("-ct.abs(x - 1)", lambda x: -np.abs(x - 1), id="unary"),
        pytest.param("ct.exp2(x)", np.exp2, id="exp2"),
        pytest.param("ct.rsqrt(x)", lambda x: 1 / np.sqrt(x), id="rsqrt"),
        pytest.param("ct.where(x > 1, x, 0.0)", lambda x: np.where(x > 1, x, 0), id="select"),
        pytest.param("ct.minimum(x, 1.0)", lambda x: np.minimum(x, 1), id="minimum"),
        pytest.param("ct.astype(x * 10, ct.int32) // 3", lambda x: np.floor(np.trunc(x * 10) / 3),
                     id="floor division"),
        pytest.param("ct.astype(x * -10, ct.int32) % 3", lambda x: np.mod(np.trunc(x * -10), 3),
                     id="modulo of a negative number"),
        pytest.param("ct.sum(x, axis=1, keepdims=True)", lambda x: x.sum(1, keepdims=True),
                     id="sum"),
        pytest.param("ct.max(x, axis=0, keepdims=True)", lambda x: x.max(0, keepdims=True),
                     id="max"),
        pytest.param("ct.cumsum(x, axis=1)", lambda x: x.cumsum(1), id="running sum"),
        pytest.param("ct.transpose(x)", lambda x: x.T, id="transpose"),
        pytest.param("ct.reshape(x, (2, 16))", lambda x: x.reshape(2, 16), id="reshape"),
        pytest.param("ct.extract(x, (1, 1), (2, 4))", lambda x: x[2:, 4:], id="extract"),
        pytest.param("ct.cat((x, x), 0)", lambda x: np.concatenate([x, x]), id="cat"),
        pytest.param("ct.expand_dims(ct.sum(x, axis=1), 0)", lambda x: x.sum(1)[None], id="expand"),
        pytest.param("x[:, None, :].reshape((8, 4))", lambda x: x.reshape(8, 4), id="subscript"),
        pytest.param("ct.broadcast_to(x[0:1] if False else x, (4, 8))", lambda x: x,
                     id="expression on a constant"),
        pytest.param("ct.mma(x, ct.transpose(x), ct.zeros((4, 4), ct.float32))", lambda x: x @ x.T,
                     id="mma"),
        pytest.param("ct.astype(ct.astype(x, ct.float16), ct.float32)",
                     lambda x: x.astype(np.float16).astype(np.float32), id="half precision"),
    ],
)  # fmt: skip
def test_operation(expression: str, expected: Callable[[Array], Array]) -> None:
    wanted = np.asarray(expected(X))
    out = np.zeros(wanted.shape, np.float32)
    run(on_tile(expression), (1,), {"X": X.copy(), "Out": out})
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        pytest.param("bf16", 1.00390625, 1.0, id="bf16 ties to even"),
        pytest.param("bf16", 1.01171875, 1.015625, id="bf16 ties upward to even"),
        pytest.param("tf32", 1 + 2.0**-11, 1.0, id="tf32"),
        pytest.param("f8e4m3", 500.0, 448.0, id="fp8 saturates"),
        pytest.param("f8e4m3", 17.0, 16.0, id="fp8 keeps three bits"),
        pytest.param("i8", 300, 44, id="integers wrap"),
        pytest.param("i32", -2.9, -2, id="floats truncate"),
    ],
)
def test_rounding(dtype: str, value: float, expected: float) -> None:
    assert float(rounded(np.asarray(value), dtype)) == expected


PADDED = """
@ct.kernel
def k(X, Out):
    x = ct.load(X, index=(0, 1), shape=(4, 8){padding})
    ct.store(Out, index=(0, 0), tile=x)
"""


@pytest.mark.parametrize(
    ("padding", "poison", "expected"),
    [
        pytest.param(", padding_mode=ct.PaddingMode.ZERO", True, 0.0, id="zero"),
        pytest.param(", padding_mode=ct.PaddingMode.NEG_INF", True, -np.inf, id="minus infinity"),
        pytest.param("", False, 0.0, id="undetermined, as hardware has it"),
        pytest.param("", True, np.nan, id="undetermined, poisoned"),
    ],
)
def test_padding(padding: str, poison: bool, expected: float) -> None:
    given, out = np.ones((4, 13), np.float32), np.full((4, 8), 9.0, np.float32)
    kernel = cutile(PADDED.format(padding=padding))
    run(kernel, (1,), {"X": given, "Out": out}, Limits(poison=poison))
    np.testing.assert_array_equal(out[:, 5:], np.full((4, 3), expected, np.float32))
    np.testing.assert_array_equal(out[:, :5], 1.0)


def test_control_flow_with_early_exits() -> None:
    kernel = cutile("""
def inner(x, limit):
    total = 0
    while total < limit:
        total = total + x
        if total > 6:
            break
    return total

@ct.kernel
def k(Out, n: int):
    i = ct.bid(0)
    if i >= n:
        return
    ct.scatter(Out, i, inner(i + 1, 5))
""")
    out = np.full(4, -1, np.int32)
    run(kernel, (4,), {"Out": out, "n": 3})
    assert out.tolist() == [5, 6, 6, -1]


def test_triton_pointers_masks_and_truncating_division() -> None:
    kernel = triton("""
@triton.jit
def k(X, Out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, mask=at < n, other=7)
    tl.store(Out + at, x // 2 + x % 2)
    tl.atomic_add(Out + at * 0, 1, mask=at == 0)
""")
    given, out = np.array([-3, -2, 5], np.int32), np.zeros(4, np.int32)
    run(kernel, (2,), {"X": given, "Out": out, "n": 3, "BLOCK": 2})
    assert out.tolist() == [-1, -1, 3, 4]


def test_softmax_and_matmul() -> None:
    x = np.random.default_rng(0).standard_normal((3, 13)).astype(np.float32)
    out = np.zeros_like(x)
    run(SOFTMAX, (3,), {"X": x, "Out": out, "N": 13, "TILE": 16})
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)
    a, b = (np.random.default_rng(s).standard_normal((20, 13)).astype(np.float16) for s in (1, 2))
    c = np.zeros((20, 20), np.float16)
    run(MATMUL, (2, 2), {"A": a, "B": b, "C": c, "TM": 16, "TN": 16, "TK": 8})
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_allclose(c.astype(np.float32), exact, rtol=2e-3, atol=2e-3)


def test_bf16_travels_in_float32() -> None:
    out = Tensor(np.zeros((4, 8), np.float32), "bf16")
    run(on_tile("x"), (1,), {"X": X, "Out": out})
    np.testing.assert_array_equal(out.data, rounded(X, "bf16"))
    assert not np.array_equal(out.data, X)


@pytest.mark.parametrize(
    ("body", "arguments", "message"),
    [
        pytest.param("ct.store(Out, index=(0,), tile=ct.gather(X, 9, check_bounds=False))", {},
                     "without a bounds check", id="outside an array"),
        pytest.param("ct.store(Out, index=(0,), tile=ct.full((1 << 30,), 0.0, ct.float32))", {},
                     "Use smaller tiles", id="too large a tile"),
        pytest.param("ct.static_assert(False, 'no')", {}, "assertion", id="assertion"),
        pytest.param("ct.store(Out, index=(0,), tile=ct.full((3,), 0.0, ct.float32) + X.odd)", {},
                     "odd", id="unknown attribute"),
        pytest.param("ct.mma(ct.zeros((4, 4), ct.float16), ct.zeros((4, 4), ct.float32), "
                     "ct.zeros((4, 4), ct.float32))", {}, "product", id="product of two dtypes"),
    ],
)  # fmt: skip
def test_refusal(body: str, arguments: dict[str, object], message: str) -> None:
    kernel = cutile(f"@ct.kernel\ndef k(X, Out):\n    {body}\n")
    given = {"X": np.zeros(4, np.float32), "Out": np.zeros(4, np.float32), **arguments}
    with pytest.raises(EvaluationError, match=message) as caught:
        run(kernel, (1,), given)
    assert caught.value.where.startswith("k.py:5")


def test_a_run_is_bounded() -> None:
    kernel = cutile("@ct.kernel\ndef k(Out):\n    i = 0\n    while i < 1:\n        i = i * 1\n")
    with pytest.raises(EvaluationError, match="more than 500 steps"):
        run(kernel, (1,), {"Out": np.zeros(1, np.float32)}, Limits(steps=500))
