"""Which threads a reduction runs over is told with where the class of the library is named."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from extractors.patterns.reduction_scope import ReductionScope
from kb.analysis.facts import Facts

_NAMED = """__global__ void largest(const float* x, float* out, int n) {
    using Together = cub::BlockReduce<float, 128>;
    __shared__ typename Together::TempStorage kept;
    float own = -1e30f;
    for (int i = threadIdx.x; i < n; i += 128) own = fmaxf(own, x[blockIdx.x * n + i]);
    float all = Together(kept).Reduce(own, cub::Max());
    if (threadIdx.x == 0) out[blockIdx.x] = all;
}
"""
_BARE = _NAMED.replace("    using Together = cub::BlockReduce<float, 128>;\n", "\n").replace(
    "Together", "cub::BlockReduce<float, 128>"
)


@pytest.mark.parametrize(
    ("text", "named"),
    [pytest.param(_NAMED, True, id="by a name"), pytest.param(_BARE, False, id="by itself")],
)
def test_where_the_class_is_named(text: str, named: bool) -> None:
    facts = Facts(read_cuda(text, "k.cu").kernels[0])
    [found] = ReductionScope().find(facts)
    assert found.value == "block"
    assert ((2, 2) in found.lines) is named
