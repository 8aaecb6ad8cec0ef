"""Rows whose steps in between stay in the output or in shared memory, as source texts for cases."""

CENTRED_THREADS = """__device__ float all(float v, float* s) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? s[threadIdx.x % 32] : 0.f;
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}
__global__ void norm(const float* x, float* out, int n, float eps) {
    __shared__ float s[64];
    const float* own = x + blockIdx.x * n;
    float* to = out + blockIdx.x * n;
    float t = 0.f;
    for (int j = threadIdx.x; j < n; j += blockDim.x) t += own[j];
    const float mean = all(t, s) / n;
    t = 0.f;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const float d = own[j] - mean;
        to[j] = d;
        t += d * d;
    }
    const float r = rsqrtf(all(t, s + 32) / n + eps);
    for (int j = threadIdx.x; j < n; j += blockDim.x) to[j] *= r;
}
"""
"""Layer normalisation of one row without a weight; the centred row waits in the output."""

STAGED_SOFTMAX_THREADS = """__device__ float sums(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}
__device__ float largest(float v) {
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    return v;
}
__global__ void shares(const float* x, float* out, int n) {
    extern __shared__ float held[];
    float* part = held;
    float* vals = held + 32;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float* own = x + blockIdx.x * n;
    float m = -INFINITY;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const float v = own[j];
        vals[j] = v;
        m = fmaxf(m, v);
    }
    m = largest(m);
    if (lane == 0) part[warp] = m;
    __syncthreads();
    m = largest(lane < blockDim.x / 32 ? part[lane] : -INFINITY);
    float t = 0.f;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        const float e = expf(vals[j] - m);
        t += e;
        vals[j] = e;
    }
    __syncthreads();
    t = sums(t);
    if (lane == 0) part[warp] = t;
    __syncthreads();
    t = sums(lane < blockDim.x / 32 ? part[lane] : 0.f);
    for (int j = threadIdx.x; j < n; j += blockDim.x) out[blockIdx.x * n + j] = vals[j] / t;
}
"""
"""Softmax of one row that waits in shared memory, and its exponentials after it."""
