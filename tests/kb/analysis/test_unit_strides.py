"""Arrays that lanes walk without a stride."""

from __future__ import annotations

from extractors.cuda.read import read_cuda
from kb.analysis.assumptions import unit_strides
from kb.analysis.facts import Facts

LANES = """
__global__ void k(const float* x, float* out, int n, int stride) {
  int i = threadIdx.x * 4;
  for (int k = 0; k < 4; ++k) out[blockIdx.x * n + i + k] = x[blockIdx.x * n + (threadIdx.x % 32)];
}
"""


def test_lanes_without_a_stride() -> None:
    (kernel,) = read_cuda(LANES, "k.cu").kernels
    assert unit_strides(Facts(kernel)).keys() == {"x", "out"}
    strided = LANES.replace("threadIdx.x * 4", "threadIdx.x * stride")
    (kernel,) = read_cuda(strided.replace("% 32", "* stride"), "k.cu").kernels
    assert unit_strides(Facts(kernel)).keys() == set()
