"""What the grammar takes for something else than the compiler does."""

from __future__ import annotations

import pytest

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, understood

_KERNEL = """__global__ void k(const float* x, float* y, int i, int j, int h, int w) {
    TOLD
    if (in) y[0] = x[i * w + j];
}
"""


@pytest.mark.parametrize(
    "told",
    [
        "bool in = (i < h && j >= 0 && j < w);",
        "bool in; in = (i >= 0 && i < h && j >= 0 && j < w);",
    ],
)
def test_a_comparison_that_looks_like_a_template(told: str) -> None:
    kernel = understood(_KERNEL.replace("TOLD", told))
    assert len(ops(kernel, OpKind.GE)) == told.count(">=")
    assert len(ops(kernel, OpKind.LT)) == 2
