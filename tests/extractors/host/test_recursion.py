"""Functions that call themselves: followed where what they are given ends it, bounded elsewhere."""

from __future__ import annotations

import pytest

from tests.extractors.host.conftest import Read

TEXT = """
import torch, triton
import triton.language as tl
@triton.jit
def k(X, n, B: tl.constexpr):
    tl.store(X + n, B)
def turned(x, n):
    if x.stride(0) == 1:
        return turned(x.t(), n + 1)
    k[(1,)](x, n, B=8)
    return x
def halved(n):
    return halved(n // 2) + 1 if n > 1 else 0
def run(x):
    {body}
"""


def test_a_function_on_an_unknown_condition_is_entered_three_times(read: Read) -> None:
    launches = read(TEXT.format(body="turned(x, 1)")).launches
    passed = [{b.parameter: b.expression for b in one.bindings}["n"] for one in launches]
    assert sorted(passed) == ["1", "2", "3"]


@pytest.mark.parametrize("guard", ["", "if x.shape[0] > 4: "])
def test_a_function_that_known_values_end_is_followed(read: Read, guard: str) -> None:
    body = f"{guard}k[(1,)](x, halved(2 ** 15), B=8)"
    launches = read(TEXT.format(body=body)).launches
    (launch,) = [one for one in launches if one.host_function == "run"]
    assert {b.parameter: b.expression for b in launch.bindings}["n"] == "15"
