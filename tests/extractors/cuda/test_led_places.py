"""What is read at a loaded place is told with how the place is come by."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from extractors.patterns.indirect_access import IndirectAccess
from kb.analysis.facts import Facts

_PAGED = """__global__ void put(const float* x, const int* slot, float* out, int page, int far) {
    int own = slot[blockIdx.x];
    int which = own / page;
    int place = own % page;
    out[which * far + place * 128 + threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
}
"""
_CHAIN = """__global__ void put(const float* x, const int* kind, const int* row, float* out,
                                 int n) {
    int own = kind[blockIdx.x];
    int to = row[own];
    out[to * n + threadIdx.x] = x[blockIdx.x * n + threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(_PAGED, {2, 3, 4, 5}, id="taken apart to a page and a place"),
        pytest.param(_CHAIN, {3, 4, 5}, id="one number says where the other lies"),
    ],
)
def test_how_a_place_is_come_by(text: str, lines: set[int]) -> None:
    facts = Facts(read_cuda(text, "k.cu").kernels[0])
    found = [d for d in IndirectAccess().find(facts) if d.value == "row by a loaded id"]
    assert lines in [{first for first, _ in d.lines} for d in found]
