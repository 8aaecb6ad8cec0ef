"""Macros and definitions of headers that a package includes but does not bring along."""

from __future__ import annotations

from extractors.cuda.read import ReadCuda, read_cuda
from kb.ir import kernel_ops
from kb.ops import OpKind

_LOOP = """#include <ATen/cuda/detail/KernelUtils.h>
template <typename T> C10_LAUNCH_BOUNDS_2(256, 4)
__global__ void twice(const T* x, T* y, int n) {
  CUDA_KERNEL_LOOP(i, n) {
    CUDA_KERNEL_ASSERT(x[i] == x[i]);
    y[i] = x[i] + x[i];
  }
}
"""


def _kinds(found: ReadCuda) -> list[OpKind]:
    return [op.kind for op in kernel_ops(found.kernels[0])]


def test_a_loop_of_all_threads_over_a_problem() -> None:
    found = read_cuda(_LOOP, "k.cu")
    kinds = _kinds(found)
    assert OpKind.OPAQUE not in kinds
    assert OpKind.DEVICE_ASSERT in kinds
    assert {OpKind.LOAD, OpKind.STORE, OpKind.NUM_BLOCKS} <= set(kinds)
    assert dict(found.kernels[0].entry.options) == {"max_threads": 256, "min_blocks": 4}
    assert not found.diagnostics


def test_the_macro_of_the_file_comes_first() -> None:
    own = "#define CUDA_KERNEL_LOOP(i, n) for (int i = threadIdx.x; i < n; i += 32)\n"
    found = read_cuda(own + _LOOP, "k.cu")
    assert OpKind.NUM_BLOCKS not in _kinds(found)


def test_a_macro_that_the_file_forgets_is_the_header_s_again() -> None:
    own = "#define CUDA_KERNEL_LOOP(i, n) for (int i = 0; i < n; ++i)\n#undef CUDA_KERNEL_LOOP\n"
    assert OpKind.NUM_BLOCKS in _kinds(read_cuda(own + _LOOP, "k.cu"))


def test_vectors_and_shuffles_that_headers_define() -> None:
    found = read_cuda(
        """template <typename T, int N> __global__ void k(const T* x, T* y) {
  using V = at::native::memory::aligned_vector<T, N>;
  V v = reinterpret_cast<const V*>(x)[threadIdx.x];
  y[threadIdx.x] = WARP_SHFL_DOWN(v.val[0], 4);
}""",
        "k.cu",
    )
    ops = {op.kind: op for op in kernel_ops(found.kernels[0])}
    assert OpKind.OPAQUE not in ops
    assert dict(ops[OpKind.SHUFFLE].attributes)["mode"] == "down"
    loaded = ops[OpKind.LOAD].results[0].type
    assert loaded is not None
    assert loaded.shape == ("N",)


def test_what_a_compiler_is_told_of_a_branch_changes_nothing() -> None:
    found = read_cuda(
        """__global__ void k(float* x, int n) {
  if (__builtin_expect(threadIdx.x < n, 1)) x[threadIdx.x] = 0.f;
}""",
        "k.cu",
    )
    assert OpKind.OPAQUE not in _kinds(found)


def test_definitions_of_the_file_come_first() -> None:
    found = read_cuda(
        """__device__ float WARP_SHFL_DOWN(float x, int n) { return x * n; }
__global__ void k(float* x) { x[threadIdx.x] = WARP_SHFL_DOWN(x[0], 4); }""",
        "k.cu",
    )
    assert OpKind.SHUFFLE not in _kinds(found)


def test_places_in_a_warp_by_functions_of_cutlass() -> None:
    found = read_cuda(
        """__global__ void k(const float* x, float* y) {
  float v = x[cutlass::canonical_warp_idx_sync() * 32 + cutlass::arch::LaneId()];
  if (cute::elect_one_sync()) y[threadIdx.x] = v;
}""",
        "k.cu",
    )
    kinds = _kinds(found)
    assert OpKind.OPAQUE not in kinds
    assert {OpKind.THREAD_ID, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.EQ} <= set(kinds)
