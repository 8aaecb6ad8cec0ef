"""Macros and definitions of public headers that packages include but do not bring along."""

from __future__ import annotations

from extractors.cuda.macros import Macro, definition

_FIRST = "blockIdx.x * blockDim.x + threadIdx.x"
_ALL = "blockDim.x * gridDim.x"
_FIRST_Y = "blockIdx.y * blockDim.y + threadIdx.y"
_ALL_Y = "blockDim.y * gridDim.y"


_WIDE = "static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x"

_WRITTEN = (
    f"CUDA_KERNEL_LOOP(i, n) for (int i = {_WIDE}; i < (n); i += {_ALL})",
    f"CUDA_KERNEL_LOOP_TYPE(i, n, type) for (type i = {_WIDE}; i < (n); i += {_ALL})",
    f"CUDA_1D_KERNEL_LOOP(i, n) for (int i = {_FIRST}; i < (n); i += {_ALL})",
    f"CUDA_1D_KERNEL_LOOP_T(type, i, n) for (type i = {_FIRST}; i < (n); i += {_ALL})",
    f"CUDA_2D_KERNEL_LOOP(i, n, j, m) for (size_t i = {_FIRST}; i < (n); i += {_ALL}) "
    f"for (size_t j = {_FIRST_Y}; j < (m); j += {_ALL_Y})",
    "CUDA_2D_KERNEL_BLOCK_LOOP(i, n, j, m) for (size_t i = blockIdx.x; i < (n); i += gridDim.x) "
    "for (size_t j = blockIdx.y; j < (m); j += gridDim.y)",
    "CUDA_KERNEL_ASSERT(condition) assert(condition)",
    "CUDA_KERNEL_ASSERT2(condition) assert(condition)",
    "CUDA_KERNEL_ASSERT_MSG(condition, message) assert(condition)",
    "CUDA_KERNEL_ASSERT_PRINTF(condition, ...) assert(condition)",
    "C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)",
    "C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)",
    "C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)",
    "C10_HOST __host__",
    "C10_DEVICE __device__",
    "C10_HOST_DEVICE __host__ __device__",
    "GPU_LAMBDA __host__ __device__",
    "C10_WARP_SIZE 32",
    "CUTE_GRID_CONSTANT __grid_constant__",
    "CUTLASS_GRID_CONSTANT __grid_constant__",
    "__builtin_expect(value, likely) (value)",
    "__builtin_huge_valf() (INFINITY)",
    "__builtin_inff() (INFINITY)",
)
"""Source: PyTorch, ATen/cuda/detail/KernelUtils.h, c10/macros/Macros.h, ATen/native/cuda/Loops.cuh;
OpenMMLab, pytorch_cuda_helper.hpp; Caffe2, common_gpu.h; CUTLASS, cutlass/device_kernel.h,
cute/config.hpp; GCC, Other Built-in Functions."""

PUBLIC: dict[str, Macro] = {
    found.name: found for text in _WRITTEN if (found := definition(text)) is not None
}
"""Macros by name, for files that neither define them nor include a header that does."""

ACCESSORS = (
    ("GenericPackedTensorAccessor", ", typename Index", "Index"),
    ("PackedTensorAccessor", ", typename Index", "Index"),
    ("PackedTensorAccessor32", "", "int32_t"),
    ("PackedTensorAccessor64", "", "int64_t"),
)
"""Tensors with extents and strides: name, template parameters besides, type of an index."""

_ACCESSOR = """template <typename T, int N, template <typename U> class Pointers{more}>
struct {name} {{
  T* data_; {index} sizes_[N]; {index} strides_[N];
  __device__ {index} size(int axis) const {{ return sizes_[axis]; }}
  __device__ {index} stride(int axis) const {{ return strides_[axis]; }}
  __device__ T* data() const {{ return data_; }}
}};
"""

RESTRICTED = "RestrictPtrTraits"
"""The word of one whose data nothing else leads to."""

_HELPERS = """
template <typename T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <typename T, int N> struct alignas(sizeof(T) * N) aligned_vector { T val[N]; };
template <typename T> __device__ T WARP_SHFL(
    T value, int lane, int width = 32, unsigned mask = 0xffffffffu) {
  return __shfl_sync(mask, value, lane, width);
}
template <typename T> __device__ T WARP_SHFL_XOR(
    T value, int lanes, int width = 32, unsigned mask = 0xffffffffu) {
  return __shfl_xor_sync(mask, value, lanes, width);
}
template <typename T> __device__ T WARP_SHFL_UP(
    T value, unsigned delta, int width = 32, unsigned mask = 0xffffffffu) {
  return __shfl_up_sync(mask, value, delta, width);
}
template <typename T> __device__ T WARP_SHFL_DOWN(
    T value, unsigned delta, int width = 32, unsigned mask = 0xffffffffu) {
  return __shfl_down_sync(mask, value, delta, width);
}
template <typename T> __device__ T gpuAtomicAdd(T* at, T value) { return atomicAdd(at, value); }
template <typename T> __device__ void gpuAtomicAddNoReturn(T* at, T value) {
  atomicAdd(at, value);
}
template <typename T, typename Index> __device__ void fastAtomicAdd(
    T* base, Index index, Index count, T value, bool fast) {
  atomicAdd(base + index, value);
}
template <typename T, typename Index, int Dims> struct TensorInfo {
  T* data; Index sizes[25]; Index strides[25]; int dims;
};
template <typename T, typename Index, int Dims> struct IndexToOffset {
  static __device__ Index get(Index linear, const TensorInfo<T, Index, Dims>& info) {
    Index offset = 0;
    for (int i = info.dims - 1; i > 0; --i) {
      offset += (linear % info.sizes[i]) * info.strides[i];
      linear /= info.sizes[i];
    }
    return offset + linear * info.strides[0];
  }
};
__device__ void WARP_SYNC(unsigned mask = 0xffffffffu) { __syncwarp(mask); }
__device__ int LaneId() { return threadIdx.x % 32; }
__device__ int canonical_lane_idx() { return threadIdx.x % 32; }
__device__ int canonical_warp_idx() { return threadIdx.x / 32; }
__device__ int canonical_warp_idx_sync() { return threadIdx.x / 32; }
__device__ int canonical_warp_group_idx() { return threadIdx.x / 128; }
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;"); }
__device__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;");
}
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;"); }
__device__ void cluster_sync() { cluster_arrive(); cluster_wait(); }
__device__ void __cluster_barrier_arrive() { cluster_arrive(); }
__device__ void __cluster_barrier_arrive_relaxed() { cluster_arrive_relaxed(); }
__device__ void __cluster_barrier_wait() { cluster_wait(); }
__device__ unsigned block_rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;"); }
__device__ void fence_view_async_shared() { asm volatile("fence.proxy.async.shared::cta;"); }
__device__ void tma_store_fence() { fence_view_async_shared(); }
__device__ void tma_store_arrive() { asm volatile("cp.async.bulk.commit_group;"); }
template <int Count> __device__ void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(Count) : "memory");
}
template <unsigned Count> __device__ void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(Count));
}
template <unsigned Count> __device__ void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(Count));
}
__device__ void prefetch_tma_descriptor(const void* map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory");
}
__device__ void wait_on_dependent_grids() { asm volatile("griddepcontrol.wait;"); }
__device__ void launch_dependent_grids() { asm volatile("griddepcontrol.launch_dependents;"); }
__device__ bool elect_one_sync() { return threadIdx.x % 32 == 0; }
"""
DEFINITIONS = _HELPERS + "".join(
    _ACCESSOR.format(name=name, more=more, index=index) for name, more, index in ACCESSORS
)
"""What structs and functions of headers do, in words of our own; of the lanes of a warp the first
stands for the one that is elected. Source: PyTorch, ATen/native/cuda/MemoryAccess.cuh,
ATen/cuda/DeviceUtils.cuh, ATen/cuda/Atomic.cuh, ATen/native/cuda/KernelUtils.cuh,
ATen/cuda/detail/TensorInfo.cuh, ATen/core/TensorAccessor.h; CUTLASS, cutlass/cutlass.h,
cutlass/arch/arch.h, cutlass/arch/barrier.h, cutlass/arch/reg_reconfig.h,
cutlass/arch/grid_dependency_control.h, cute/arch/cluster_sm90.hpp, cute/arch/copy_sm90_tma.hpp;
CUDA, crt/sm_90_rt.h."""
