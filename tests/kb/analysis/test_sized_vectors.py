"""Where a kernel counts the elements of its vectors."""

from __future__ import annotations

from extractors.cuda.read import read_cuda
from extractors.detect import detect

_ZEROS = """__global__ void k(const float4* x, float4* out) {
    size_t a = threadIdx.x * 16ull + 0ull * 0ull;
    out[a + 32ull * (0ull + 4ull)] = x[a];
}
"""


def test_nothing_is_divided_by_a_size_of_zero() -> None:
    (kernel,) = read_cuda(_ZEROS, "k.cu").kernels
    assert {d.value for d in detect(kernel).decisions if d.axis == "vector_width"} == {"128-bit"}
