"""Conditions that a program keeps as one or zero and asks for afterwards."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ir_text import to_text

_KERNEL = """__global__ void k(const float* x, float* out, int n) {
    int i = threadIdx.x;
    int active = (i < n) ? %s;
    if (%s) out[i] = x[i];
}
"""


def _text(chosen: str, asked: str) -> str:
    (kernel,) = read_cuda(_KERNEL % (chosen, asked), "k.cu").kernels
    return to_text(kernel)


@pytest.mark.parametrize("asked", ["active != 0", "active == 1", "1 <= active", "0 < active"])
def test_the_condition_itself(asked: str) -> None:
    text = _text("1 : 0", asked)
    made = text.split(" = lt(")[0].rpartition("%")[2]
    assert f"if(condition %{made})" in text
    assert "ne(" not in text
    assert "eq(" not in text


@pytest.mark.parametrize("asked", ["active == 0", "active != 1", "active < 1"])
def test_that_it_does_not_hold(asked: str) -> None:
    assert "not(x" in _text("1 : 0", asked)


@pytest.mark.parametrize(
    ("chosen", "asked", "kept"),
    [("2 : 0", "active != 0", "ne("), ("1 : 0", "active < 2", "lt(lhs %active"),
     ("1 : 0", "active < n", "lt(lhs %active"), ("i : 0", "active != 0", "ne(")],
)  # fmt: skip
def test_other_numbers_stay(chosen: str, asked: str, kept: str) -> None:
    assert kept in _text(chosen, asked)
