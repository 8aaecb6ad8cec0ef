"""Groups of the threads of a warp for which a number is the same."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.patterns.reduction_scope import ReductionScope
from kb.analysis.facts import Facts
from tests.extractors.cuda.samples import understood

_MERGED = """namespace cg = cooperative_groups;
__global__ void merge(const long* of, const float* x, float* out, int n) {
    int i = cg::this_grid().thread_rank();
    if (i >= n) return;
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto alike = GROUP;
    float sum = cg::reduce(alike, x[i], cg::plus<float>());
    if (alike.thread_rank() == 0) atomicAdd(&out[of[i]], sum);
}
"""


@pytest.mark.parametrize(
    "group", ["cg::labeled_partition(warp, of[i])", "cg::binary_partition(warp, i % 2 == 0)"]
)
def test_they_are_a_part_of_a_warp_and_nothing_waits(group: str) -> None:
    kernel = understood(_MERGED.replace("GROUP", group))
    [found] = ReductionScope().find(Facts(kernel))
    assert found.value == "tile"
    told = {d.axis: d.value for d in detect(kernel).decisions}
    assert told["synchronization"] == "none"
    assert told["work_decomposition"] != "split-K / split-KV"
