"""Launches and hosts of CUDA C++ in other spellings: no decision of program or host changes."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from benchmarks.invariance import cuda_hosts, cuda_params
from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.host.facts import HostFacts
from extractors.told_together import told_together

CHANGES = cuda_hosts.CHANGES | cuda_params.CHANGES

STRIDED = """
int ceil_div(int a, int b) { return (a + b - 1) / b; }
template <typename T, int WIDE>
__global__ void scaled(const T* x, T* out, float by, int n, bool twice) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float v = static_cast<float>(x[i]) * by;
    if (twice) v = v * WIDE;
    out[i] = static_cast<T>(v);
  }
}
void scale(torch::Tensor x, torch::Tensor out, float by, bool twice) {
  TORCH_CHECK(x.is_contiguous() && out.is_contiguous(), "rows follow each other");
  TORCH_CHECK(x.dtype() == torch::kFloat32, "single precision");
  int n = x.numel();
  if (n % 4 != 0) throw std::runtime_error("whole vectors");
  dim3 block(256);
  int blocks = std::min(ceil_div(n, 256), 1024);
  scaled<float, 2><<<blocks, block, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), out.data_ptr<float>(), by, n, twice);
}
"""

SEVERAL = """
template <int WIDTH>
__global__ void summed(const float* x, float* sums, int cols) {
  float sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += WIDTH) sum += x[blockIdx.x * cols + i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
__global__ void divided(const float* x, const float* sums, float* out, int cols, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = x[i] / sums[i / cols];
}
void normalise(const float* x, float* sums, float* out, int rows, int cols, int width) {
  if (rows == 0) return;
  const int n = rows * cols;
  if (width == 32) {
    summed<32><<<rows, 32>>>(x, sums, cols);
  } else if (width == 64) {
    summed<64><<<rows, 64>>>(x, sums, cols);
  } else {
    summed<128><<<rows, 128>>>(x, sums, cols);
  }
  dim3 grid((n + 256 - 1) / 256);
  divided<<<grid, 256>>>(x, sums, out, cols, n);
}
void chosen(const float* x, float* sums, int rows, int cols, int width) {
  switch (width) {
    case 32: {
      summed<32><<<rows, 32>>>(x, sums, cols);
      break;
    }
    default: summed<64><<<rows, 64>>>(x, sums, cols);
  }
}
"""

TEXTS = {"one kernel": STRIDED, "several kernels": SEVERAL}

Seen = list[tuple[str, Counter[tuple[str, str, str]], str | None]]


@cache
def seen(text: str) -> Seen:
    """Decisions of program and host, and the operation, of each kernel of a text."""
    read, found = read_cuda(text, "k.cu"), []
    hosts = host_facts(read)
    for kernel in read.kernels:
        host = hosts.get(kernel.name, HostFacts())
        told = detect(kernel, host)
        rows = Counter((d.axis, d.value, d.pattern) for d in told_together(told, host))
        found.append((kernel.name, rows, told.operation))
    return found


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("name", TEXTS)
def test_another_spelling_of_the_host_changes_no_decision(name: str, change: str) -> None:
    assert seen(CHANGES[change](TEXTS[name])) == seen(TEXTS[name])


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_every_change_changes_a_text(change: str) -> None:
    assert any(CHANGES[change](text) != text for text in TEXTS.values())
