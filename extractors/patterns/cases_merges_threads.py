"""Sample kernels of CUDA C++ that put partial results of a softmax together. Written for this
purpose; none is somebody else's.
"""

from __future__ import annotations

MERGE_PAIR_THREADS = """__global__ void join(const float* a, const float* b, const float* la,
                                          const float* lb, float* out, float* stat, int width) {
    int row = blockIdx.x;
    float x = la[row];
    float y = lb[row];
    float top = fmaxf(x, y);
    float wx = exp2f(x - top);
    float wy = exp2f(y - top);
    float tot = wx + wy;
    float r = 1.f / tot;
    int at = row * width + threadIdx.x;
    out[at] = (a[at] * wx + b[at] * wy) * r;
    stat[row] = log2f(tot) + top;
}
"""
"""Two partial results of a row become one, and so do their log-sum-exps."""

MERGE_LOOP_THREADS = """__global__ void join(const float* parts, const float* stats, float* out,
                                          float* stat, int count, int width) {
    int row = blockIdx.x;
    float top = -INFINITY;
    float tot = 0.f;
    float acc = 0.f;
    for (int k = 0; k < count; ++k) {
        float x = stats[row * count + k];
        float now = fmaxf(top, x);
        float fade = exp2f(top - now);
        float w = exp2f(x - now);
        acc = acc * fade + parts[(row * count + k) * width + threadIdx.x] * w;
        tot = tot * fade + w;
        top = now;
    }
    float r = tot > 0.f ? 1.f / tot : 0.f;
    out[row * width + threadIdx.x] = acc * r;
    if (stat != nullptr) stat[row] = top + log2f(tot);
}
"""
"""Any number of partial results of a row become one; a row without any gives zero."""

GATED_THREADS = """__global__ void gated(const float* x, const float* y, float* out, float* side,
                                     int width) {
    int at = blockIdx.x * width + threadIdx.x;
    float top = fmaxf(x[at], 0.f);
    float soft = top + logf(1.f + expf(x[at] - 2.f * top));
    out[at] = y[at] * soft + expf(-y[at]);
    side[blockIdx.x] = soft;
}
"""
"""A softplus gate: exponentials and a logarithm, but no weights of parts."""
