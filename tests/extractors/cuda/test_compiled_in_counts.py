"""Quotients of what counts in steps that are compiled in are whole numbers."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ir import kernel_ops
from kb.ops import OpKind


@pytest.mark.parametrize(
    ("made", "whole"),
    [
        pytest.param("(blockIdx.x * T::kStep + threadIdx.x) / 32", True, id="steps of blocks"),
        pytest.param("(blockIdx.x * T::kStep + threadIdx.x) / T::kLanes", True, id="by another"),
        pytest.param("min(threadIdx.x * T::kStep, n - 1) / n", True, id="held below an extent"),
        pytest.param("x[0] * T::kStep / 2.f", False, id="of a float"),
        pytest.param("T::kStep / 2", False, id="nothing counts"),
        pytest.param("T::kStep * T::kLanes / 2", False, id="both compiled in"),
    ],
)
def test_quotients_of_what_counts(made: str, whole: bool) -> None:
    text = (
        "template <typename T> __global__ void k(const float* x, float* y, unsigned n) {\n"
        f"  const auto at = {made};\n  y[0] = at;\n}}\n"
    )
    (kernel,) = read_cuda(text, "k.cu").kernels
    found = {op.kind for op in kernel_ops(kernel)} & {OpKind.DIV, OpKind.FLOOR_DIV}
    assert found == {OpKind.FLOOR_DIV if whole else OpKind.DIV}
