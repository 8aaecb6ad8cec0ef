"""Sizes that arrays of a kernel, lanes and threads must be enough for."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.facts import Facts
from kb.analysis.fixed_arrays import enough_threads, fixed_arrays

FILLED = """
__global__ void k(const float* x, float* out, int n) {
  __shared__ float held[64];
  for (int i = threadIdx.x; i < n; i += blockDim.x) held[i] = x[i];
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = held[threadIdx.x % 64];
}
"""
ROWS = """
template <int W>
__global__ void k(const float* x, float* out, int n) {
  __shared__ float held[8][W];
  for (int i = 0; i < n; ++i) held[i + 2][threadIdx.x] = x[i * W + threadIdx.x];
  out[threadIdx.x] = held[0][threadIdx.x];
}
"""
OWN = """
__global__ void k(const float* x, float* out, int n) {
  float held[4];
  for (int i = 0; i < n; ++i) held[i] = x[i * 32 + threadIdx.x];
  for (int i = 0; i < n; ++i) out[i * 32 + threadIdx.x] = 2.0f * held[i];
}
"""
THREADS = """
__global__ void k(const float* x, float* out, int n) {
  if (threadIdx.x < n) out[threadIdx.x] = 2.0f * x[threadIdx.x];
}
"""


def facts(text: str) -> Facts:
    (kernel,) = read_cuda(text, "k.cu").kernels
    return Facts(kernel)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(FILLED, ["n <= 64"], id="shared by the block"),
        pytest.param(
            FILLED.replace("held[i] =", "held[2 + i] ="), ["n + 2 <= 64"], id="behind others"
        ),
        pytest.param(ROWS, ["n + 2 <= 8"], id="rows"),
        pytest.param(OWN, ["n <= 4"], id="of one thread"),
        pytest.param(FILLED.replace("i < n;", "i < 48;"), [], id="a number of the source"),
        pytest.param(
            FILLED.replace("held[i] =", "if (i < 64) held[i] ="), [], id="the kernel asks"
        ),
        pytest.param(FILLED.replace("held[i] =", "held[i % 64] ="), [], id="around in it"),
        pytest.param(
            FILLED.replace("i < n;", "i < min(n, 64);"), [], id="held below the extent"
        ),
    ],
)  # fmt: skip
def test_loops_that_fill_arrays(text: str, expected: list[str]) -> None:
    assert [c.expression for c in fixed_arrays(facts(text))] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(THREADS, ["n <= block_x"], id="a thread each"),
        pytest.param(
            THREADS.replace("threadIdx.x", "threadIdx.x % 32"), ["n <= 32"], id="a lane each"
        ),
        pytest.param(
            THREADS.replace("  if", "  for (int i = threadIdx.x; i < n; i += 32) x;\n  if"),
            [],
            id="a loop takes the rest",
        ),
        pytest.param(
            THREADS.replace(
                "  if", "  if (threadIdx.x + 32 < n) out[threadIdx.x + 32] = 0.0f;\n  if"
            ),
            [],
            id="two each",
        ),
        pytest.param(THREADS.replace("< n)", "< 16)"), [], id="a number of the source"),
        pytest.param(THREADS.replace("threadIdx.x", "threadIdx.y"), [], id="another axis"),
        pytest.param(
            THREADS.replace("threadIdx.x", "(blockIdx.x * blockDim.x + threadIdx.x)"),
            [],
            id="blocks take the rest",
        ),
        pytest.param(THREADS.replace("[threadIdx.x]", "[0]"), [], id="nothing at the place"),
    ],
)
def test_threads_that_take_one_each(text: str, expected: list[str]) -> None:
    assert [c.expression for c in enough_threads(facts(text))] == expected
