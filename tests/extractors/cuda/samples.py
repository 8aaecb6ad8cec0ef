"""Small kernels in CUDA C++ that the tests read, written for this; and how they are read."""

from extractors.cuda.read import read_cuda
from kb.ir import Kernel, Op, kernel_ops
from kb.ir_verify import verify
from kb.ops import OpKind


def sound(text: str) -> Kernel:
    """The only kernel of a text, whose program holds together."""
    (kernel,) = read_cuda(text, "k.cu").kernels
    assert verify(kernel) == ()
    return kernel


def understood(text: str) -> Kernel:
    """The same, of which every operation was understood."""
    kernel = sound(text)
    assert not ops(kernel, OpKind.OPAQUE)
    return kernel


def ops(kernel: Kernel, kind: OpKind) -> list[Op]:
    """The operations of a kind."""
    return [op for op in kernel_ops(kernel) if op.kind == kind]


LAYER_NORM = """\
__device__ __forceinline__ float warp_sum(float v) {
  #pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

template <typename T>
__global__ void __launch_bounds__(256, 2)
layer_norm(const T* __restrict__ x, const float* __restrict__ w, T* __restrict__ y, int n,
           float eps) {
  __shared__ float part[2][8];
  const int64_t row = blockIdx.x;
  const T* xr = x + row * n;
  float s = 0.f, q = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = static_cast<float>(xr[i]);
    s += v;
    q += v * v;
  }
  s = warp_sum(s);
  q = warp_sum(q);
  if ((threadIdx.x & 31) == 0) {
    part[0][threadIdx.x / 32] = s;
    part[1][threadIdx.x / 32] = q;
  }
  __syncthreads();
  float mean = part[0][0] / n;
  float rstd = rsqrtf(part[1][0] / n - mean * mean + eps);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = static_cast<float>(xr[i]);
    y[row * n + i] = static_cast<T>((v - mean) * rstd * w[i]);
  }
}

void launch(const float* x, const float* w, float* y, int rows, int n, cudaStream_t stream) {
  layer_norm<float><<<rows, 256, 0, stream>>>(x, w, y, n, 1e-5f);
}
"""

COPY = """\
extern "C" __global__ void copy4(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i * 4 >= n) return;
  float4 v = __ldcs(reinterpret_cast<const float4*>(in) + i);
  v.x *= 2.0f;
  __stcs(reinterpret_cast<float4*>(out) + i, v);
}
"""

MATMUL = """\
#define TILE 16
__global__ void matmul(const half* a, const half* b, float* c, int m, int n, int k) {
  __shared__ half as[2][TILE][TILE + 8];
  float acc = 0.f;
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  for (int t = 0; t < k; t += TILE) {
    unsigned to = __cvta_generic_to_shared(&as[0][threadIdx.y][threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\\n" ::"r"(to), "l"(a + row * k + t));
    asm volatile("cp.async.commit_group;\\n" ::);
    asm volatile("cp.async.wait_group 0;\\n" ::);
    __syncthreads();
    for (int j = 0; j < TILE; ++j)
      acc += __half2float(as[0][threadIdx.y][j]) * __half2float(b[(t + j) * n + col]);
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = acc;
}
"""

PRODUCT = """\
__global__ void product(const unsigned* a, const unsigned* b, float* c) {
  float d[4] = {0.f, 0.f, 0.f, 0.f};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  #pragma unroll
  for (int i = 0; i < 4; ++i) c[threadIdx.x * 4 + i] = d[i];
}
"""

SOFTMAX = """\
__global__ void online_softmax(const float* x, float* y, int n) {
  x += blockIdx.x * n;
  float m = -INFINITY, l = 0.f;
  for (int i = threadIdx.x; i < n; i += 32) {
    float v = x[i], old = m;
    m = fmaxf(m, v);
    l = l * __expf(old - m) + __expf(v - m);
  }
  for (int o = 16; o > 0; o /= 2) {
    float mo = __shfl_down_sync(~0u, m, o), lo = __shfl_down_sync(~0u, l, o);
    float mn = fmaxf(m, mo);
    l = l * __expf(m - mn) + lo * __expf(mo - mn);
    m = mn;
  }
  for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = __expf(x[i] - m) / l;
}
"""

DISPATCH = """\
#define DISPATCH_WIDTH(width, WIDTH, ...) \\
  switch (width) {                        \\
    case 4: {                             \\
      constexpr int WIDTH = 4;            \\
      __VA_ARGS__                         \\
      break;                              \\
    }                                     \\
    case 8: {                             \\
      constexpr int WIDTH = 8;            \\
      __VA_ARGS__                         \\
      break;                              \\
    }                                     \\
  }
template <int WIDTH, bool SCALED, typename T>
__global__ void scale(T* x, float factor) {
  T v[WIDTH];
  #pragma unroll
  for (int i = 0; i < WIDTH; ++i) {
    v[i] = x[threadIdx.x * WIDTH + i];
    if constexpr (SCALED) v[i] = v[i] * factor;
    x[threadIdx.x * WIDTH + i] = v[i];
  }
}
void run(float* x, int width, int blocks) {
  dim3 block(128);
  DISPATCH_WIDTH(width, WIDTH, {
    scale<WIDTH, true, float><<<blocks, block>>>(x, 2.f);
  });
}
"""

COLLECTIVES = """\
#include <cub/cub.cuh>
namespace cg = cooperative_groups;
template <int THREADS>
__global__ void sums(const float* x, float* out, int n) {
  using Reduce = cub::BlockReduce<float, THREADS>;
  __shared__ typename Reduce::TempStorage storage;
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  float v = threadIdx.x < n ? x[threadIdx.x] : 0.f;
  float all = Reduce(storage).Sum(v);
  float some = cg::reduce(warp, v, cg::plus<float>{});
  block.sync();
  if (threadIdx.x == 0) atomicAdd(out, all + some);
}
"""

SAMPLES = {
    "layer_norm": LAYER_NORM, "copy": COPY, "matmul": MATMUL, "product": PRODUCT,
    "softmax": SOFTMAX, "dispatch": DISPATCH, "collectives": COLLECTIVES,
}  # fmt: skip
