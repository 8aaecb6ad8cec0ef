"""Loaded numbers that many elements share."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.facts import Facts
from kb.analysis.shared_numbers import of_all

_KERNEL = """__global__ void k(const float* x, const float* scale, float* out) {
    int at = blockIdx.x * 128 + threadIdx.x;
    float by = scale[0];
    out[at] = x[at] * by;
}
"""


@pytest.mark.parametrize(
    ("text", "count"), [(_KERNEL, 1), (_KERNEL.replace("scale[0]", "scale[blockIdx.x]"), 0)]
)
def test_the_one_number_for_all(text: str, count: int) -> None:
    """A number of the call, not of a block."""
    (kernel,) = read_cuda(text, "k.cu").kernels
    facts = Facts(kernel)
    assert len(of_all(facts, [s.value for s in facts.stores if s.value])) == count
