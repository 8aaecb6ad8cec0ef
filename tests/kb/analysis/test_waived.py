"""Conditions that compile-time parameters alone decide."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.facts import Facts
from kb.analysis.waived import parameters_below
from kb.ops import OpKind

ASKED = """template <int R, bool F> __global__ void k(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (F && R > 4) out[at] = x[at];
}
"""


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        pytest.param("F && R > 4", {"F", "R"}, id="compile-time parameters"),
        pytest.param("F && n > 4", {"F", "n"}, id="a size beside them"),
        pytest.param("threadIdx.x < R", set(), id="which threads"),
        pytest.param("blockIdx.x < R", set(), id="which blocks"),
    ],
)
def test_parameters_that_decide(condition: str, names: set[str]) -> None:
    (kernel,) = read_cuda(ASKED.replace("F && R > 4", condition), "k.cu").kernels
    facts = Facts(kernel)
    masks = {s.mask for s in facts.stores if s.mask}
    branches = {b.op.inputs[0] for b in facts.graph.of(OpKind.IF, OpKind.IF_EXPRESSION)}
    (asked,) = masks | branches
    assert parameters_below(facts, asked) == names
