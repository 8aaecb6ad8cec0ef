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


_GROUPS = """__global__ void twice(float* x, int width, int n) {
    int row = blockIdx.x * ((blockDim.x >> 5) / (width >> 5)) + (threadIdx.x >> 5) / (width >> 5);
    x[row * n + threadIdx.x % width] *= 2.f;
}
"""
_STEPS = """__global__ void twice(const float* x, float* out, int n) {
    int at = blockIdx.x * 2048 + threadIdx.x * 4;
    for (int i = 0; i < 2; ++i) {
        if (at + i * 1024 < n) out[at + i * 1024] = 2.f * x[at + i * 1024];
    }
}
"""
_PARTS = """template <int N>
__global__ void twice(const float* x, float* out) {
    constexpr int PART = N / 8;
    int at = blockIdx.x * N + blockIdx.y * PART + threadIdx.x;
    for (int i = 0; i < PART; i += 128) out[at + i] = 2.f * x[at + i];
}
"""
_SCATTERED = """__global__ void ends(const int* ids, int* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    for (int i = ids[at]; i < ids[at + 1]; ++i) out[i] = at + blockIdx.x;
}
"""


def test_rows_of_groups_of_threads_are_tiles() -> None:
    assert _work(_GROUPS) == {"one tile per CTA"}
    assert _work(vary(_GROUPS, ("blockIdx.x * ((blockDim.x >> 5) / (width >> 5)) + "
                                "(threadIdx.x >> 5) / (width >> 5)", "blockIdx.x"))) == {
        "one row per CTA"
    }  # fmt: skip


def test_a_flat_position_that_is_cut_off_counts_elements() -> None:
    assert _work(_STEPS) == {"one tile per CTA"}
    assert _work(_SCATTERED) == {"one tile per CTA"}


def test_a_part_of_a_row_is_a_tile() -> None:
    assert _work(_PARTS) == {"one tile per CTA"}
