# ruff: noqa: E501
"""Sample normalisations, and a softmax, of CUDA C++, thread by thread. Written for this purpose."""

from __future__ import annotations

from extractors.patterns.cases import vary

_WARP_SUM = """__device__ float warp_sum(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}
"""
NORM_ALONE_THREADS = """__global__ void norm(const float* x, const float* w, float* out, int rows, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        const float* own = x + row * n;
        float mean = 0.f, square = 0.f;
        for (int i = 0; i < n; i++) mean += own[i];
        mean = mean / n;
        for (int i = 0; i < n; i++) {
            float c = own[i] - mean;
            square += c * c;
        }
        float r = 1.0f / sqrtf(square / n + 1e-5f);
        for (int i = 0; i < n; i++) out[row * n + i] = (own[i] - mean) * r * w[i];
    }
}
"""
"""Layer normalisation, a row for every thread."""

LENGTHS_THREADS = """__global__ void lengths(const float* x, float* out, int rows, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float square = 0.f;
        for (int i = 0; i < n; i++) square += x[row * n + i] * x[row * n + i];
        out[row] = 1.0f / sqrtf(square / n + 1e-5f);
    }
}
"""
"""Inverse lengths of rows, a row for every thread."""

ADDED_THREADS = (
    _WARP_SUM
    + """__global__ void added(const float* x, const float* y, float* both, float* out, int n, float eps) {
    int row = blockIdx.x;
    float part = 0.f, square = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        float v = x[row * n + i] + y[row * n + i];
        part += v;
        both[row * n + i] = v;
    }
    float mean = warp_sum(part) / n;
    for (int i = threadIdx.x; i < n; i += 32) {
        float c = both[row * n + i] - mean;
        square += c * c;
    }
    float r = rsqrtf(warp_sum(square) / n + eps);
    for (int i = threadIdx.x; i < n; i += 32)
        out[row * n + i] = (both[row * n + i] - mean) * r;
}
"""
)
"""Layer normalisation of a sum that is stored, and read from where it was stored."""

PAIRS_THREADS = """struct Pair {
    __device__ float2 operator()(const float2& a, const float2& b) const { return make_float2(a.x + b.x, a.y + b.y); }
};
template <int T>
__global__ void norm(const float* x, const float* w, float* out, int n, float eps) {
    using Reduce = cub::BlockReduce<float2, T>;
    __shared__ typename Reduce::TempStorage store;
    __shared__ float mean, scale;
    float v = x[blockIdx.x * n + threadIdx.x];
    float2 both = Reduce(store).Reduce(make_float2(v, v * v), Pair());
    if (threadIdx.x == 0) {
        mean = both.x / n;
        scale = rsqrtf(fmaxf(0.f, fmaf(-mean, mean, both.y / n)) + eps);
    }
    __syncthreads();
    out[blockIdx.x * n + threadIdx.x] = fmaf(-1.f, mean, v) * scale * w[threadIdx.x];
}
"""
"""Layer normalisation of a row whose two sums are one pair for the block."""

SCORES_THREADS = """__global__ void attend(const float* qkv, float* s, float* out, int n, int d) {
    int row = blockIdx.x, lane = threadIdx.x;
    float top = -INFINITY, sum = 0.f;
    for (int j = 0; j <= row; ++j) {
        float v = 0.f;
        for (int i = lane; i < d; i += 32) v += qkv[row * 3 * d + i] * qkv[j * 3 * d + d + i];
        for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
        top = fmaxf(top, v);
        if (lane == 0) s[row * n + j] = v;
    }
    for (int j = lane; j <= row; j += 32) sum += expf(s[row * n + j] - top);
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    for (int i = lane; i < d; i += 32) {
        float acc = 0.f;
        for (int j = 0; j <= row; ++j)
            acc += expf(s[row * n + j] - top) / sum * qkv[j * 3 * d + 2 * d + i];
        out[row * d + i] = acc;
    }
}
"""
"""Keys and values are parts of one array; the scores of a row are stored and read again."""

CENTRED_IN_PLACE_THREADS = (
    _WARP_SUM
    + """template <int W>
__global__ void centred(const float2* x, float* out, int n, float eps) {
    int row = blockIdx.x, lane = threadIdx.x;
    float v[W][2];
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < W; i++) {
        if (lane + 32 * i >= n) break;
        float2 u = x[row * n + lane + 32 * i];
        v[i][0] = u.x;
        v[i][1] = u.y;
        sum += u.x + u.y;
    }
    float mean = warp_sum(sum) / n;
    sum = 0.f;
#pragma unroll
    for (int i = 0; i < W; i++) {
        float a = v[i][0] - mean, b = v[i][1] - mean;
        v[i][0] = a;
        v[i][1] = b;
        sum += a * a + b * b;
    }
    float r = rsqrtf(warp_sum(sum) / n + eps);
#pragma unroll
    for (int i = 0; i < W; i++) {
        if (lane + 32 * i >= n) return;
        out[2 * (row * n + lane + 32 * i)] = v[i][0] * r;
        out[2 * (row * n + lane + 32 * i) + 1] = v[i][1] * r;
    }
}
"""
)
"""Layer normalisation of a row in registers, whose elements are centred where they lie."""

SOFTMAX_IN_PLACE_THREADS = """__global__ void soft(const float2* x, float2* out, int n, int most) {
    int lane = threadIdx.x % max(blockDim.x, most);
    float2 v[8];
    float top = -1e30f, sum = 0.f;
    for (int i = 0; i < 8; i++) {
        if (i * 32 + lane < n) {
            v[i] = x[blockIdx.x * n + i * 32 + lane];
            top = v[i].x > top ? v[i].x : top;
            top = v[i].y > top ? v[i].y : top;
        }
    }
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    for (int i = 0; i < 8; i++) {
        if (i * 32 + lane < n) {
            v[i].x = __expf(v[i].x - top);
            v[i].y = __expf(v[i].y - top);
            sum += v[i].x + v[i].y;
        }
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    for (int i = 0; i < 8; i++)
        if (i * 32 + lane < n)
            out[blockIdx.x * n + i * 32 + lane] = make_float2(v[i].x / sum, v[i].y / sum);
}
"""
"""A softmax of a row in registers, whose scores are raised where they lie."""

TYPES_THREADS = (
    _WARP_SUM
    + """template <int W>
__global__ void norm(const void* x, float* out, int n, bool wide) {
    float v[W];
    float square = 0.f;
    if (wide) {
        for (int i = 0; i < W; i++) {
            v[i] = ((const float*)x)[blockIdx.x * n + threadIdx.x + 32 * i];
            square += v[i] * v[i];
        }
    } else {
        for (int i = 0; i < W; i++) {
            v[i] = __half2float(((const half*)x)[blockIdx.x * n + threadIdx.x + 32 * i]);
            square += v[i] * v[i];
        }
    }
    float r = rsqrtf(warp_sum(square) / n + 1e-5f);
    for (int i = 0; i < W; i++) out[blockIdx.x * n + threadIdx.x + 32 * i] = v[i] * r;
}
"""
)
"""A row that is read once, as one of two types."""

WITH_RESIDUAL_THREADS = """__global__ void norm(const float* x, const float* w, const float* res,
                                     float* out, float eps, int n) {
    const int row = blockIdx.x * n;
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) sum += x[row + i] * x[row + i];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    const float r = rsqrtf(sum / n + eps);
    for (int i = threadIdx.x; i < n; i += 32) {
        out[row + i] = x[row + i] * r * w[i] + res[row + i];
    }
}
"""
ROTATED_ROW_THREADS = vary(
    WITH_RESIDUAL_THREADS,
    ("w[i] + res[row + i]", "w[i] - x[row + i + n / 2] * r * w[i + n / 2]"),
    ("i < n; i += 32) {", "i < n / 2; i += 32) {"),
)

WEIGHED_AND_ROTATED_THREADS = vary(
    WITH_RESIDUAL_THREADS,
    (
        "out[row + i] = x[row + i] * r * w[i] + res[row + i];",
        "const float first = x[row + i] * r * w[i];\n"
        "        const float second = x[row + i + n / 2] * r * w[i + n / 2];\n"
        "        out[row + i] = __fmaf_rn(first, res[i], __fmul_rn(second, res[i + n / 2]));",
    ),
    ("i < n; i += 32) {", "i < n / 2; i += 32) {"),
)
"""A normalised row times a weight, whose halves are then rotated."""
