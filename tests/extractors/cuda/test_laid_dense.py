"""Arrays that must lie without gaps, with where the host relies on it: it hands no stride over, and
demands whole vectors."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.told_together import told_together
from kb.evidence import Lines

_KERNEL = """__global__ void k(const float* x, float* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = x[blockIdx.x * n + i];
}
"""
_WIDE = """__global__ void k(const float4* x, float4* out, int n) {
  for (int i = threadIdx.x; i < n / 4; i += blockDim.x)
    out[blockIdx.x * (n / 4) + i] = x[blockIdx.x * (n / 4) + i];
}
void run(const float4* x, float4* out, int rows, int n) {
  TORCH_CHECK(n % 4 == 0);
  k<<<rows, 128>>>(x, out, n);
}
"""
_RUN = """void run(const float* x, float* out, int rows, int n) {
  k<<<rows, 128>>>(x, out, n);
}
"""
_STRIDED = """__global__ void k(const float* x, float* out, int n, long down, long far) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[blockIdx.x * far + i] = x[blockIdx.x * down + i];
}
void run(const float* x, float* out, int rows, int n, long down, long far) {
  k<<<rows, 128>>>(x, out, n, down, far);
}
"""


def _lines(text: str) -> set[Lines]:
    found = read_cuda(text, "k.cu")
    (kernel,), hosts = found.kernels, host_facts(found)
    told = told_together(detect(kernel, hosts["k"]), hosts["k"])
    dense = [d for d in told if d.value == "contiguous arrays taken for granted"]
    return {line for one in dense for line in one.lines}


@pytest.mark.parametrize(("text", "lines"), [(_KERNEL + _RUN, {(5, 5)}), (_WIDE, {(6, 6), (7, 7)})])
def test_where_the_host_relies_on_it(text: str, lines: set[Lines]) -> None:
    """The launch, and the check of the extent."""
    assert lines <= _lines(text)


def test_arrays_with_strides_do_not_say_so() -> None:
    """Rows a stride apart that the host hands over."""
    assert not _lines(_STRIDED)
