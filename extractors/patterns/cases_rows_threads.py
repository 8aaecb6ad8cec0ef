# ruff: noqa: E501
"""Sample kernels of CUDA C++ over rows and elements, thread by thread. Written for this purpose."""

from __future__ import annotations

_SUM = """#include <cuda_fp16.h>
__device__ float block_sum(float v) {
    __shared__ float part[32];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.f;
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}
"""
_MAX = """__device__ float block_max(float v) {
    __shared__ float part[32];
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : -INFINITY;
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    return v;
}
"""

ROW_NORM_THREADS = (
    _SUM
    + """__global__ void norm(const half* x, const half* w, half* out, float* stat, int n, float eps) {
    int row = blockIdx.x;
    int at = threadIdx.x;
    float v = at < n ? __half2float(x[row * n + at]) : 0.f;
    float r = rsqrtf(block_sum(v * v) / n + eps);
    if (threadIdx.x == 0) stat[row] = r;
    float g = at < n ? __half2float(w[at]) : 0.f;
    if (at < n) out[row * n + at] = __float2half(v * r * g);
}
"""
)
"""Root-mean-square normalisation of a row that stays in registers."""

ROW_NORM_CHUNKS_THREADS = (
    _SUM
    + """__global__ void norm(const half* x, const half* w, half* out, int n, float eps) {
    int row = blockIdx.x;
    float part = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float v = __half2float(x[row * n + i]);
        part += v * v;
    }
    float r = rsqrtf(block_sum(part) / n + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[row * n + i] = __float2half(__half2float(x[row * n + i]) * r * __half2float(w[i]));
}
"""
)
"""The same in two passes over chunks of the row."""

NORM_PERSISTENT_THREADS = (
    _SUM
    + """__global__ void norm(const half* x, const half* w, half* out, int rows, int n, float eps) {
    int at = threadIdx.x;
    float g = at < n ? __half2float(w[at]) : 0.f;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float v = at < n ? __half2float(x[row * n + at]) : 0.f;
        float r = rsqrtf(block_sum(v * v) / n + eps);
        if (at < n) out[row * n + at] = __float2half(v * r * g);
    }
}
"""
)
"""Blocks that walk rows and keep the weight."""

NORM_BACKWARD_THREADS = (
    _SUM
    + """__global__ void back(half* gx, const half* gy, const half* x, const half* w, const float* stat, float* parts, int rows, int n) {
    int at = threadIdx.x;
    float g = at < n ? __half2float(w[at]) : 0.f;
    float acc = 0.f;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float v = at < n ? __half2float(x[row * n + at]) : 0.f;
        float dy = at < n ? __half2float(gy[row * n + at]) : 0.f;
        float r = stat[row];
        float hat = v * r;
        float wdy = dy * g;
        float c = block_sum(hat * wdy) / n;
        if (at < n) gx[row * n + at] = __float2half((wdy - hat * c) * r);
        acc += dy * hat;
    }
    if (at < n) parts[blockIdx.x * n + at] = acc;
}
"""
)
"""Gradient of a normalisation: statistics are read, the weight's part is summed over the rows of a
block."""

LAYER_NORM_THREADS = (
    _SUM
    + """__global__ void norm(const half* x, const half* w, const half* b, half* out, float* mean_out, float* rstd_out, int n, float eps) {
    long row = blockIdx.x;
    int at = threadIdx.x;
    bool inside = at < n;
    float v = inside ? __half2float(x[row * n + at]) : 0.f;
    float mean = block_sum(v) / n;
    float c = v - mean;
    float c0 = inside ? c : 0.f;
    float r = rsqrtf(block_sum(c0 * c0) / n + eps);
    if (threadIdx.x == 0) {
        mean_out[row] = mean;
        rstd_out[row] = r;
    }
    float g = inside ? __half2float(w[at]) : 0.f;
    float h = inside ? __half2float(b[at]) : 0.f;
    if (inside) out[row * n + at] = __float2half(c * r * g + h);
}
"""
)
"""Layer normalisation of one row."""

SOFTMAX_THREADS = (
    _SUM
    + _MAX
    + """__global__ void soft(half* out, const half* x, int rows, int n) {
    int at = threadIdx.x;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float v = at < n ? __half2float(x[row * n + at]) : -INFINITY;
        float e = expf(v - block_max(v));
        float y = e / block_sum(e);
        if (at < n) out[row * n + at] = __float2half(y);
    }
}
"""
)
"""Softmax of rows that stay in registers."""

SOFTMAX_CHUNKS_THREADS = (
    _SUM
    + _MAX
    + """__global__ void soft(half* out, const half* x, int n) {
    int row = blockIdx.x;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, __half2float(x[row * n + i]));
    top = block_max(top);
    float tot = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) tot += expf(__half2float(x[row * n + i]) - top);
    float inv = 1.f / block_sum(tot);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[row * n + i] = __float2half(expf(__half2float(x[row * n + i]) - top) * inv);
}
"""
)
"""Softmax in three passes over chunks."""

TURN_THREADS = """template <int T>
__global__ void turn(const float* x, float* out, int rows, int cols) {
    __shared__ float tile[T][T + 1];
    int m = blockIdx.y * T + threadIdx.y;
    int n = blockIdx.x * T + threadIdx.x;
    if (m < rows && n < cols) tile[threadIdx.y][threadIdx.x] = x[m * cols + n];
    __syncthreads();
    m = blockIdx.y * T + threadIdx.x;
    n = blockIdx.x * T + threadIdx.y;
    if (m < rows && n < cols) out[n * rows + m] = tile[threadIdx.x][threadIdx.y];
}
"""
"""A transpose through shared memory."""

COPY_THREADS = """__global__ void copy(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at];
}
"""
"""A copy: nearly no decision."""

ADD_THREADS = """__global__ void plus(const float* x, const float* y, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] + y[at];
}
"""
"""An elementwise sum."""

FIRST_THREAD = """__global__ void last(const float* x, float* out, int n) {
    float v = x[blockIdx.x * n + n - 1];
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
"""
"""The last element of every row, stored by one thread."""

CONVOLUTION_THREADS = """template <int T, int CG, int R, int S, int STEP, int PAD, int DIL>
__global__ void conv(const float* x, const float* w, float* out, int batch, int H, int V, int P, int Q, int KO,
                     int xn, int xc, int xh, int xv, int wk, int wc, int wr, int ws, int yn, int yk, int yp, int yq) {
    __shared__ float ta[T][T + 1];
    __shared__ float tb[T][T + 1];
    int m = blockIdx.x * T + threadIdx.y;
    int ko = blockIdx.y * T + threadIdx.x;
    int g = blockIdx.z;
    int q = m % Q;
    int p = (m / Q) % P;
    int n = m / Q / P;
    float acc = 0.f;
    int blocks = (CG + T - 1) / T;
    for (int t = 0; t < R * S * blocks; ++t) {
        int c = (t % blocks) * T + threadIdx.x;
        int d = (t % blocks) * T + threadIdx.y;
        int rs = t / blocks;
        int r = rs / S;
        int s = rs % S;
        int h = r * DIL - PAD + STEP * p;
        int v = s * DIL - PAD + STEP * q;
        bool inside = n < batch && c < CG && 0 <= h && h < H && 0 <= v && v < V;
        ta[threadIdx.y][threadIdx.x] = inside ? x[n * xn + g * xc * CG + xc * c + xh * h + xv * v] : 0.f;
        tb[threadIdx.y][threadIdx.x] = d < CG ? w[wc * d + wk * ko + wr * r + ws * s] : 0.f;
        __syncthreads();
        for (int k = 0; k < T; ++k) acc += ta[threadIdx.y][k] * tb[k][threadIdx.x];
        __syncthreads();
    }
    if (n < batch && ko < KO) out[yn * n + yk * ko + yp * p + yq * q] = acc;
}
"""
"""A convolution as an implicit matrix product, taps outside and channels inside one loop."""

ONE_THREAD = """__global__ void starts(const int* ends, int* begins, int n) {
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < n; ++i) {
            begins[i] = sum;
            sum += ends[i];
        }
    }
}
"""
"""Running sums that the first thread takes alone."""

PAIRS_THREADS = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
struct Pair { float top; float sum; };
__device__ Pair join(Pair a, Pair b) {
    bool first = a.top > b.top;
    Pair big = first ? a : b;
    Pair small = first ? b : a;
    Pair made;
    made.top = big.top;
    made.sum = big.sum + small.sum * expf(small.top - big.top);
    return made;
}
__global__ void softmax(const float* x, float* out, int n) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const float* row = x + blockIdx.x * n;
    Pair own;
    own.top = -INFINITY;
    own.sum = 0.f;
    for (int i = warp.thread_rank(); i < n; i += warp.size()) own = join(own, {row[i], 1.f});
    Pair all = cg::reduce(warp, own, join);
    for (int i = warp.thread_rank(); i < n; i += warp.size())
        out[blockIdx.x * n + i] = expf(row[i] - all.top) / all.sum;
}
"""
"""A maximum and its sum in one struct, merged by a choice of the larger maximum."""

SORT_THREADS = """#include <cub/cub.cuh>
__global__ void order(float* x, int* index, int n) {
    using Sorter = cub::BlockRadixSort<unsigned, 128, 4, int>;
    __shared__ typename Sorter::TempStorage storage;
    unsigned keys[4];
    int places[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int at = threadIdx.x * 4 + i;
        keys[i] = at < n ? __float_as_uint(x[blockIdx.x * n + at]) : ~0u;
        places[i] = at;
    }
    Sorter(storage).Sort(keys, places);
    for (int i = 0; i < 4; ++i)
        if (threadIdx.x * 4 + i < n) index[blockIdx.x * n + threadIdx.x * 4 + i] = places[i];
}
"""
"""A row that the threads of a block sort, with where its numbers stood."""

NORM_BACKWARD_SHARED = """__global__ void back(const float* x, const float* dy, const float* w, const float* mean, const float* rstd, float* dx, float* dw, int rows, int n) {
    extern __shared__ float sums[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) sums[i] = 0.f;
    __syncthreads();
    int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int row = blockIdx.x * warps + threadIdx.x / 32; row < rows; row += gridDim.x * warps) {
        float m = mean[row], r = rstd[row], part = 0.f;
        for (int i = lane; i < n; i += 32)
            part += w[i] * dy[row * n + i] * ((x[row * n + i] - m) * r);
        for (int o = 16; o > 0; o /= 2) part += __shfl_xor_sync(0xffffffff, part, o);
        for (int i = lane; i < n; i += 32) {
            float hat = (x[row * n + i] - m) * r;
            atomicAdd(&sums[i], hat * dy[row * n + i]);
            dx[row * n + i] = (w[i] * dy[row * n + i] - hat * part / n) * r;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(dw + i, sums[i]);
}
"""
"""Gradient of a normalisation, a row per warp; the weight's part gathers in shared memory."""


COLUMNS_THREADS = """__global__ void columns(const float* dy, float* db, int rows, int n) {
    extern __shared__ float part[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const float* own = dy + blockIdx.x * 32 + lane;
    float sum = 0.f;
    for (int row = warp; row < rows; row += warps) sum += own[row * n];
    part[warp * 32 + lane] = sum;
    __syncthreads();
    if (warp == 0) {
        float all = 0.f;
        for (int j = 0; j < warps; ++j) all += part[j * 32 + lane];
        db[blockIdx.x * 32 + lane] += all;
    }
}
"""


ATOMIC_COLUMNS_THREADS = """__global__ void columns(const float* dy, float* db, int rows, int n) {
    __shared__ float part[32];
    if (threadIdx.y == 0) part[threadIdx.x] = 0.f;
    __syncthreads();
    int at = blockIdx.x * 32 + threadIdx.x;
    float acc = 0.f;
    for (int row = threadIdx.y; row < rows; row += blockDim.y) acc += dy[row * n + at];
    atomicAdd(&part[threadIdx.x], acc);
    __syncthreads();
    if (threadIdx.y == 0) db[at] += part[threadIdx.x];
}
"""


BACKWARD_REGISTERS_THREADS = """__global__ void back(const float* x, const float* dy, float* out, float* part, int n) {
    float kept[8];
    float sum = 0.f;
    int at = blockIdx.x * n + threadIdx.x * 8;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        kept[j] = x[at + j] * dy[at + j];
        sum += kept[j];
    }
    part[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 8; ++j) out[at + j] = kept[j] - part[blockIdx.x * blockDim.x] / n;
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) part[0] = sum;
}
"""
"""A row is kept in an array of registers until the threads have met."""


HELPER_LEAVES_THREADS = """__device__ void work(const float* x, const bool* kept, float* out, int n) {
    int row = blockIdx.x;
    if (kept && !kept[row]) return;
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[row * n + i] = x[row * n + i] * 2.f;
}
__global__ void entry(const float* x, const bool* kept, float* out, int n) {
    work(x, kept, out, n);
}
"""
"""A helper that is all that a kernel calls leaves early where a mark says so."""

OWN_ROW_THREADS = """__global__ void own(const float* x, float* out) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    float v[8], top = 0.f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        v[i] = x[at + i];
        top = fmaxf(top, fabsf(v[i]));
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) out[at + i] = v[i] / top;
}
"""
"""Eight elements that one thread keeps, their largest and their quotients."""

RESET_THREADS = """__global__ void scaled(const float* x, float* out, int* counts, int n, int m) {
    if (blockIdx.x == 0 && threadIdx.x < m) counts[threadIdx.x] = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[blockIdx.x * n + i] = x[blockIdx.x * n + i] * 2.f;
}
"""
"""One block sets counters back besides its row."""

SCATTERED = """template <typename S>
__global__ void scatter(const S* x, const int* at, S* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&out[at[i]], x[i] * 2);
}
"""
"""What threads loaded is added in memory, at places that were loaded."""

STARTS = """__global__ void starts(const long long* first, float** out, float* x, long long n) {
    out[threadIdx.x] = x + first[threadIdx.x] * n;
}
"""
"""Where the parts of an array begin: addresses are stored, no values."""
