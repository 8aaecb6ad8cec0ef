"""CUDA kernels whose threads make offsets in 32 or 64 bits, which cases of rules are cut from.
Written for this purpose."""

from __future__ import annotations

WARPS = """
__global__ void scale(float* out, const float* x, int n, int m) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= m) return;
    for (int i = threadIdx.x % 32; i < n; i += 32) {
        out[row * n + i] = x[row * n + i] * 2.0f;
    }
}
"""
FIELD = """
struct Sizes { int width; int rows; };
__global__ void scale(float* out, const float* x, Sizes s) {
    for (int i = threadIdx.x; i < s.width; i += blockDim.x) {
        out[blockIdx.x * s.width + i] = x[blockIdx.x * s.width + i] * 2.0f;
    }
}
"""
PACKED = """
template <typename T> struct lanes;
template <typename T>
__global__ void scale(T* out, const T* x, int n) {
    int const width = n / lanes<T>::value;
    for (int i = threadIdx.x; i < width; i += blockDim.x) { out[blockIdx.x * width + i] = x[i]; }
}
"""
COLUMNS = """
__global__ void scale(float* x, int row, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long at = (unsigned long)row * (unsigned long)columns + (unsigned long)column;
    if (column < columns) x[at] = x[at] * 2.0f;
}
"""
DIVIDED = """
__global__ void scale(float4* out, const float4* x, int cols) {
    int at = blockIdx.x * cols / 4 + threadIdx.x;
    out[at] = x[at];
}
"""
AFTERWARDS = """
__global__ void scale(float* out, const float* x, int rows, int cols) {
    int64_t at = blockIdx.y * rows * cols;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) { out[at + i] = x[at + i] * 2.0f; }
}
"""
STARTS = """
__global__ void scale(float* out, const float* x, const int* starts, int stride) {
    int first = starts[blockIdx.x];
    float v = x[first * stride + threadIdx.x];
    out[first * stride + threadIdx.x] = v * 2.0f;
}
"""
HEADS = """
template <int H>
__global__ void sums(float* out, const float* x) {
    const int head = blockIdx.y * 16 + threadIdx.x;
    out[(size_t)blockIdx.x * H + head] = x[(size_t)blockIdx.x * H + head] * 2.0f;
}
"""

HELPED = """
__device__ void clear(float* row, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) { row[i] = 0.0f; }
}
__global__ void cleared(float* out, const int* starts, int stride) {
  const int row = starts[blockIdx.y] + blockIdx.x;
  clear(out + row * stride, stride);
}
"""
