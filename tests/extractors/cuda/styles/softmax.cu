__device__ float warp_max(float v) {
    for (int o = 16; o > 0; o >>= 1) { v = fmaxf(v, __shfl_down_sync(0xffffffff, v, o)); }
    return v;
}
__device__ float warp_add(float v) {
    for (int o = 16; o > 0; o >>= 1) { v += __shfl_down_sync(0xffffffff, v, o); }
    return v;
}

__global__ void softmax_block(float* out, const float* inp, int N, int C) {
    extern __shared__ float shared[];
    int row = blockIdx.x;
    int tid = threadIdx.x;
    int warp_id = threadIdx.x / 32;
    int lane_id = threadIdx.x % 32;
    int warps = blockDim.x / 32;
    float* maxvals = shared;
    float* sumvals = &shared[warps];

    const float* x = inp + row * C;
    float maxval = -INFINITY;
    for (int i = tid; i < C; i += blockDim.x) {
        maxval = fmaxf(maxval, x[i]);
    }
    maxval = warp_max(maxval);
    if (lane_id == 0) maxvals[warp_id] = maxval;
    __syncthreads();
    if (tid == 0) {
        float val = maxvals[tid];
        for (int i = 1; i < warps; i++) {
            val = fmaxf(val, maxvals[i]);
        }
        maxvals[0] = val;
    }
    __syncthreads();
    float offset = maxvals[0];

    for (int i = tid; i < C; i += blockDim.x) {
        out[row * C + i] = expf(x[i] - offset);
    }
    x = out + row * C;
    float sumval = 0.0f;
    for (int i = tid; i < C; i += blockDim.x) {
        sumval += x[i];
    }
    sumval = warp_add(sumval);
    if (lane_id == 0) sumvals[warp_id] = sumval;
    __syncthreads();
    if (tid == 0) {
        float val = sumvals[tid];
        for (int i = 1; i < warps; ++i) {
            val += sumvals[i];
        }
        sumvals[0] = val;
    }
    __syncthreads();
    float sum = sumvals[0];
    for (int i = tid; i < C; i += blockDim.x) {
        out[row * C + i] = x[i] / sum;
    }
}

__global__ void softmax_online(float* out, const float* inp, int N, int C) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < N) {
        const float* src = inp + row * C;
        float* dst = out + row * C;
        float top = -INFINITY;
        double total = 0.0;
        for (int j = 0; j < C; j++) {
            float before = top;
            if (src[j] > top) {
                top = src[j];
                total = total * expf(before - top) + expf(src[j] - top);
            } else {
                total += expf(src[j] - top);
            }
        }
        for (int j = 0; j < C; j++) {
            dst[j] = expf(src[j] - top) / total;
        }
    }
}

struct __align__(8) MaxSum {
    float top;
    float sum;
};
__device__ __forceinline__ MaxSum join(MaxSum a, MaxSum b) {
    bool first = a.top > b.top;
    MaxSum big = first ? a : b;
    MaxSum small = first ? b : a;
    MaxSum made;
    made.top = big.top;
    made.sum = big.sum + small.sum * __expf(small.top - big.top);
    return made;
}
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void softmax_pairs(float* __restrict__ out, const float* __restrict__ inp, int N, int C) {
    namespace cg = cooperative_groups;
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (row >= N) return;
    const float* x = inp + row * C;
    MaxSum part;
    part.top = -INFINITY;
    part.sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        MaxSum one;
        one.top = x[i];
        one.sum = 1.0f;
        part = join(part, one);
    }
    MaxSum all = cg::reduce(warp, part, join);
    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        __stcs(out + row * C + i, __expf(x[i] - all.top) / all.sum);
    }
}
