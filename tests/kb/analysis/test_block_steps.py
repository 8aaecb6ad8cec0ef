"""How far a block id reaches in products of threads."""

from __future__ import annotations

from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.patterns.cases import vary

_FLAT = """template <int T>
__global__ void product(const float* a, const float* b, float* out, int N, int K) {
    __shared__ float ta[T * T], tb[T * T];
    int col = threadIdx.x % T, row = threadIdx.x / T;
    a += blockIdx.y * T * K;
    b += blockIdx.x * T;
    out += blockIdx.y * T * N + blockIdx.x * T;
    float acc = 0.f;
    for (int t = 0; t < K; t += T) {
        ta[row * T + col] = a[row * K + col];
        tb[row * T + col] = b[row * N + col];
        __syncthreads();
        a += T;
        b += T * N;
        for (int k = 0; k < T; ++k) acc += ta[row * T + k] * tb[k * T + col];
        __syncthreads();
    }
    out[row * N + col] = acc;
}
"""
_ROW = vary(
    _FLAT,
    ("    out[row * N + col] = acc;", "    out[threadIdx.x] = acc;"),
    ("    out += blockIdx.y * T * N + blockIdx.x * T;", "    out += blockIdx.x * N;"),
)


def _work(text: str) -> set[str]:
    (kernel,) = read_cuda(text, "k.cu").kernels
    return {d.value for d in detect(kernel).decisions if d.axis == "work_decomposition"}


def test_threads_share_a_tile_whose_extent_is_a_template_parameter() -> None:
    assert _work(_FLAT) == {"one tile per CTA"}
    assert _work(_ROW) == {"one row per CTA"}
