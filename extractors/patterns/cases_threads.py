# ruff: noqa: E501
"""Sample kernels of CUDA C++: attention and matrix products, thread by thread. Written for this
purpose; none is somebody else's.
"""

from __future__ import annotations

FLASH_THREADS = """#include <cuda_fp16.h>
template <int T, bool TRI>
__global__ void __launch_bounds__(1024, 1) attend(const half* a, const half* b, const half* c, half* out, float rate,
                                                  int size, int G, int R) {
    __shared__ half tq[T][T + 2];
    __shared__ half tk[T][T + 2];
    __shared__ half tv[T][T];
    __shared__ half tp[T][T];
    int x = blockIdx.x;
    int bat = blockIdx.y / G;
    int head = blockIdx.y % G;
    int kv = head / R;
    int row = x * T + threadIdx.y;
    rate = rate * 1.4426950408889634f;
    tq[threadIdx.y][threadIdx.x] = row < size ? a[((bat * G + head) * size + row) * T + threadIdx.x] : __float2half(0.f);
    float top = -INFINITY;
    float tot = 0.f;
    float acc = 0.f;
    int last = TRI ? min((x + 1) * T, size) : size;
    for (int j = 0; j < last; j += T) {
        int at = j + threadIdx.y;
        __syncthreads();
        tk[threadIdx.y][threadIdx.x] = at < size ? b[((bat * G / R + kv) * size + at) * T + threadIdx.x] : __float2half(0.f);
        tv[threadIdx.y][threadIdx.x] = at < size ? c[((bat * G / R + kv) * size + at) * T + threadIdx.x] : __float2half(0.f);
        __syncthreads();
        float s = 0.f;
        for (int d = 0; d < T; ++d) s += __half2float(tq[threadIdx.y][d]) * __half2float(tk[threadIdx.x][d]);
        int col = j + threadIdx.x;
        s = (col < size && (!TRI || row >= col)) ? s : -INFINITY;
        float best = s;
        for (int o = 16; o > 0; o >>= 1) best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, o));
        float now = fmaxf(top, best * rate);
        float p = exp2f(s * rate - now);
        float part = p;
        for (int o = 16; o > 0; o >>= 1) part += __shfl_xor_sync(0xffffffff, part, o);
        float fade = exp2f(top - now);
        tot = tot * fade + part;
        acc = acc * fade;
        tp[threadIdx.y][threadIdx.x] = __float2half(p);
        __syncthreads();
        for (int k = 0; k < T; ++k) acc += __half2float(tp[threadIdx.y][k]) * __half2float(tv[k][threadIdx.x]);
        top = now;
    }
    acc = acc / tot;
    if (row < size) out[((bat * G + head) * size + row) * T + threadIdx.x] = __float2half(acc);
}
"""
"""Online softmax over streamed keys and values, causal or not, with grouped heads: a thread per
score."""

PRODUCT_THREADS = """template <int T>
__global__ void product(const float* __restrict__ a, const float* __restrict__ b, float* out, int M, int N, int K) {
    __shared__ float ta[T][T + 1];
    __shared__ float tb[T][T];
    int m = blockIdx.y * T + threadIdx.y;
    int n = blockIdx.x * T + threadIdx.x;
    float acc = 0.f;
    for (int t = 0; t < K; t += T) {
        ta[threadIdx.y][threadIdx.x] = (m < M && t + threadIdx.x < K) ? a[m * K + t + threadIdx.x] : 0.f;
        tb[threadIdx.y][threadIdx.x] = (n < N && t + threadIdx.y < K) ? b[(t + threadIdx.y) * N + n] : 0.f;
        __syncthreads();
        for (int k = 0; k < T; ++k) acc += ta[threadIdx.y][k] * tb[k][threadIdx.x];
        __syncthreads();
    }
    if (m < M && n < N) out[m * N + n] = acc;
}
"""
"""A matrix product from tiles in shared memory, one output tile per block."""

PRODUCT_ROW_THREADS = """template <int T>
__global__ void product(const float* a, const float* b, float* out, int K, int N) {
    int tx = threadIdx.x, ty = threadIdx.y, first = K * T * blockIdx.y, last = first + K - 1;
    float acc = 0.f;
    for (int i = first, j = T * blockIdx.x; i <= last; i += T, j += T * N) {
        __shared__ float ta[T][T];
        __shared__ float tb[T][T];
        ta[ty][tx] = a[i + K * ty + tx];
        tb[ty][tx] = b[j + N * ty + tx];
        __syncthreads();
        for (int k = 0; k < T; ++k) acc += ta[ty][k] * tb[k][tx];
        __syncthreads();
    }
    out[N * T * blockIdx.y + T * blockIdx.x + N * ty + tx] = acc;
}
"""
"""A matrix product whose loop counts elements from where the block's rows begin."""

PRODUCT_BLOCKED_THREADS = """__global__ void product(const float* a, const float* b, float* out, int N, int K) {
    __shared__ float ta[8][64];
    __shared__ float tb[8][64];
    float acc[4][4] = {};
    float x[4], y[4];
    int row = threadIdx.x / 16;
    int col = threadIdx.x % 16;
    for (int t = 0; t < K; t += 8) {
        for (int i = threadIdx.x; i < 512; i += 256) {
            ta[i % 8][i / 8] = a[(blockIdx.y * 64 + i / 8) * K + t + i % 8];
            tb[i / 64][i % 64] = b[(t + i / 64) * N + blockIdx.x * 64 + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            for (int i = 0; i < 4; ++i) x[i] = ta[k][row * 4 + i];
            for (int j = 0; j < 4; ++j) y[j] = tb[k][col * 4 + j];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            out[(blockIdx.y * 64 + row * 4 + i) * N + blockIdx.x * 64 + col * 4 + j] = acc[i][j];
}
"""
"""The same with a patch of results in the registers of every thread."""

PRODUCT_PERSISTENT_THREADS = """template <int T, int GROUP>
__global__ void product(const float* a, const float* b, float* out, int M, int N, int K) {
    __shared__ float ta[T][T + 1];
    __shared__ float tb[T][T];
    int rows = (M + T - 1) / T;
    int cols = (N + T - 1) / T;
    for (int t = blockIdx.x; t < rows * cols; t += gridDim.x) {
        int wide = GROUP * cols;
        int g = t / wide;
        int first = g * GROUP;
        int high = min(rows - first, GROUP);
        int m = (first + t % high) * T + threadIdx.y;
        int n = ((t % wide) / high) * T + threadIdx.x;
        float acc = 0.f;
        for (int i = 0; i < K; i += T) {
            ta[threadIdx.y][threadIdx.x] = (m < M && i + threadIdx.x < K) ? a[m * K + i + threadIdx.x] : 0.f;
            tb[threadIdx.y][threadIdx.x] = (n < N && i + threadIdx.y < K) ? b[(i + threadIdx.y) * N + n] : 0.f;
            __syncthreads();
            for (int k = 0; k < T; ++k) acc += ta[threadIdx.y][k] * tb[k][threadIdx.x];
            __syncthreads();
        }
        if (m < M && n < N) out[m * N + n] = acc;
    }
}
"""
"""A matrix product whose blocks walk the output tiles in groups of rows."""

BACKWARD_KEYS_THREADS = """#include <cuda_fp16.h>
template <int T, bool TRI>
__global__ void back(const half* a, const half* b, const half* c, const half* d, half* gb, half* gc, const float* stat,
                     const float* dots, float rate, int size, int G, int R) {
    __shared__ half tk[T][T];
    __shared__ half tv[T][T];
    __shared__ half tq[T][T];
    __shared__ half to[T][T];
    __shared__ half tp[T][T];
    __shared__ half ts[T][T];
    int bat = blockIdx.y / G;
    int kv = blockIdx.y % G;
    int col = blockIdx.x * T + threadIdx.y;
    float rate2 = rate * 1.4426950408889634f;
    tk[threadIdx.y][threadIdx.x] = col < size ? b[((bat * G + kv) * size + col) * T + threadIdx.x] : __float2half(0.f);
    tv[threadIdx.y][threadIdx.x] = col < size ? c[((bat * G + kv) * size + col) * T + threadIdx.x] : __float2half(0.f);
    float gk = 0.f;
    float gv = 0.f;
    int first = TRI ? blockIdx.x * T : 0;
    for (int h = 0; h < R; ++h) {
        int head = kv * R + h;
        for (int m = first; m < size; m += T) {
            int at = m + threadIdx.y;
            tq[threadIdx.y][threadIdx.x] = at < size ? a[(bat * G * R + head) * size * T + at * T + threadIdx.x] : __float2half(0.f);
            to[threadIdx.y][threadIdx.x] = at < size ? d[(bat * G * R + head) * size * T + at * T + threadIdx.x] : __float2half(0.f);
            __syncthreads();
            int row = m + threadIdx.x;
            float lse = stat[(bat * G * R + head) * size + row];
            float dot = dots[(bat * G * R + head) * size + row];
            float s = 0.f;
            for (int i = 0; i < T; ++i) s += __half2float(tk[threadIdx.y][i]) * __half2float(tq[threadIdx.x][i]);
            float p = exp2f(s * rate2 - lse);
            p = (!TRI || col <= row) ? p : 0.f;
            float dp = 0.f;
            for (int i = 0; i < T; ++i) dp += __half2float(tv[threadIdx.y][i]) * __half2float(to[threadIdx.x][i]);
            float ds = p * (dp - dot);
            tp[threadIdx.y][threadIdx.x] = __float2half(p);
            ts[threadIdx.y][threadIdx.x] = __float2half(ds);
            __syncthreads();
            for (int i = 0; i < T; ++i) gv += __half2float(tp[threadIdx.y][i]) * __half2float(to[i][threadIdx.x]);
            for (int i = 0; i < T; ++i) gk += __half2float(ts[threadIdx.y][i]) * __half2float(tq[i][threadIdx.x]);
            __syncthreads();
        }
    }
    gk = gk * rate;
    if (col < size) {
        gb[((bat * G + kv) * size + col) * T + threadIdx.x] = __float2half(gk);
        gc[((bat * G + kv) * size + col) * T + threadIdx.x] = __float2half(gv);
    }
}
"""
"""Gradients of keys and values: keys stay, queries of the whole head group stream by."""
TREE_THREADS = """__global__ void total(const float* x, float* out) {
    __shared__ float part[256];
    part[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    for (int o = 128; o > 0; o /= 2) {
        __syncthreads();
        if (threadIdx.x < o) part[threadIdx.x] += part[threadIdx.x + o];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
"""
"""A tree in shared memory."""
FARTHEST_THREADS = """__global__ void farthest(const float* x, float* out, int* at) {
    __shared__ float best[256];
    __shared__ int place[256];
    best[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    place[threadIdx.x] = threadIdx.x;
    for (int o = 1; o < 256; o *= 2) {
        __syncthreads();
        if (threadIdx.x + o < 256 && best[threadIdx.x] < best[threadIdx.x + o]) {
            best[threadIdx.x] = best[threadIdx.x + o];
            place[threadIdx.x] = place[threadIdx.x + o];
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) { out[blockIdx.x] = best[0]; at[blockIdx.x] = place[0]; }
}
"""
"""A tree that keeps the larger number with its place."""
TURNED_THREADS = """__global__ void turned(const float* x, float* out, int w, int h) {
    __shared__ float tile[32][33];
    int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * w + col];
    __syncthreads();
    col = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) out[(row + i) * h + col] = tile[threadIdx.x][threadIdx.y + i];
}
"""
"""A tile is transposed through shared memory."""

SUM_AS_STORED_THREADS = """template <typename T> __global__ void dot(const T* x, const T* w, T* out, int n, int k) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    T sum = 0;
    for (int i = 0; i < k; ++i) sum += x[row * k + i] * w[i];
    out[row] = sum;
}
"""
SUM_IN_SHARED_THREADS = """__global__ void mean(const float* x, float* out, int n) {
    __shared__ float part[256];
    int at = threadIdx.x;
    part[at] = 0.f;
    for (int i = at; i < n; i += blockDim.x) part[at] += x[blockIdx.x * n + i];
    __syncthreads();
    if (at < 2) out[blockIdx.x * 2 + at] = part[at];
}
"""

CLUSTER_ROWS_THREADS = """template <int C, int T>
__global__ void rows(const float* x, float* y, int n) {
    int part = cooperative_groups::this_cluster().block_rank() * T + threadIdx.x;
    long row = blockIdx.x / C;
    for (int i = part; i < n; i += C * T) y[row * n + i] = 2.f * x[row * n + i];
}
"""

HEADS_THREADS = """template <int T, int L>
__global__ void heads(const float* x, float* out, int tokens, int heads) {
    int at = blockIdx.x * (T / L) + threadIdx.x / L;
    int token = at / heads;
    if (token >= tokens) return;
    int head = at - token * heads;
    float* to = head > 3 ? out : out + tokens;
    to[token * heads + head] = x[token * heads + head];
}
"""
"""So many groups of lanes of a block have an item each, of a flat number of them."""
