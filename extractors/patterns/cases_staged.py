"""Rows and tiles that blocks of threads leave in shared memory, or read again and again."""

STAGED_ROW_THREADS = """__device__ float warp_sum(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}
__global__ void scale(const float* x, float* out, int n) {
    extern __shared__ float row[];
    float part = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        float v = x[blockIdx.x * n + i];
        part += v * v;
        row[i] = v;
    }
    float r = rsqrtf(warp_sum(part) / n);
    for (int i = threadIdx.x; i < n; i += 32) out[blockIdx.x * n + i] = row[i] * r;
}
"""
STAGED_TILE_THREADS = """__global__ void near(const float* x, const float* y, float* out, int n) {
    __shared__ float tile[128];
    int at = blockIdx.x * 128 + threadIdx.x;
    float own = x[at], best = 1e9f;
    for (int from = 0; from < n; from += 128) {
        tile[threadIdx.x] = y[from + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) {
            float apart = fabsf(tile[i] - own);
            best = apart < best ? apart : best;
        }
        __syncthreads();
    }
    out[at] = best;
}
"""
TAKEN_IN_TURNS_THREADS = """__global__ void running(const float* x, float* out, int n) {
    __shared__ float tile[128];
    tile[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    for (int s = 1; s < 128; s *= 2) {
        __syncthreads();
        float v = threadIdx.x >= s ? tile[threadIdx.x - s] : 0.f;
        __syncthreads();
        tile[threadIdx.x] = tile[threadIdx.x] + v;
    }
    out[blockIdx.x * 128 + threadIdx.x] = tile[threadIdx.x];
}
"""
ALONE_THREADS = """__global__ void softmax(const float* x, float* out, int rows, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* own = x + row * n;
    float top = -INFINITY, sum = 0.f;
    for (int i = 0; i < n; ++i) if (own[i] > top) top = own[i];
    for (int i = 0; i < n; ++i) sum += expf(own[i] - top);
    for (int i = 0; i < n; ++i) out[row * n + i] = expf(own[i] - top) / sum;
}
"""
HELD_BETWEEN_THREADS = """__global__ void copy(const float4* x, const int* to, float4* out) {
    float4 held[4];
    for (int i = 0; i < 4; ++i) held[i] = x[blockIdx.x * 128 + i * 32 + threadIdx.x];
    int row = to[blockIdx.x];
    for (int i = 0; i < 4; ++i) out[row * 128 + i * 32 + threadIdx.x] = held[i];
}
"""
LEFT_FIRST_THREADS = """template <int W>
__global__ void norm(const float* x, const float* w, float* out, int n, int plain) {
    int row = blockIdx.x * 32 * W, lane = threadIdx.x;
    if (blockIdx.x < plain) {
        for (int i = 0; i < W; i++) out[row + lane + 32 * i] = x[row + lane + 32 * i];
        return;
    }
    float v[W], square = 0.f;
    for (int i = 0; i < W; i++) {
        v[i] = x[row + lane + 32 * i];
        square += v[i] * v[i];
    }
    for (int o = 16; o > 0; o >>= 1) square += __shfl_xor_sync(0xffffffff, square, o);
    float r = rsqrtf(square / n + 1e-5f);
    __shared__ float made[32 * W];
    for (int i = 0; i < W; i++) made[lane + 32 * i] = v[i] * r * w[lane + 32 * i];
    __syncwarp();
    for (int i = 0; i < W; i++) out[row + lane + 32 * i] = made[(lane ^ 1) + 32 * i];
}
"""
"""Blocks that only copy leave first; the others hand what they made on through shared memory."""
