#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void layer_norm_warp(float* __restrict__ y, float* __restrict__ mean_out, float* __restrict__ rstd_out,
                                const float* __restrict__ x, const float* __restrict__ gamma,
                                const float* __restrict__ beta, int rows, int width) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (row >= rows) {
        return;
    }
    const float* src = x + row * width;

    float total = 0.0f;
    for (int i = warp.thread_rank(); i < width; i += warp.size()) {
        total += src[i];
    }
    total = cg::reduce(warp, total, cg::plus<float>{});
    float mu = total / width;
    if (warp.thread_rank() == 0 && mean_out != nullptr) {
        __stcs(mean_out + row, mu);
    }

    total = 0.0f;
    for (int i = warp.thread_rank(); i < width; i += warp.size()) {
        float centred = src[i] - mu;
        total += centred * centred;
    }
    total = cg::reduce(warp, total, cg::plus<float>{});
    float rstd = rsqrtf(total / width + 1e-5f);
    if (warp.thread_rank() == 0 && rstd_out != nullptr) {
        __stcs(rstd_out + row, rstd);
    }

    float* dst = y + row * width;
    for (int c = warp.thread_rank(); c < width; c += warp.size()) {
        float hat = rstd * (__ldcs(src + c) - mu);
        __stcs(dst + c, hat * gamma[c] + beta[c]);
    }
}

void launch(float* y, float* m, float* r, const float* x, const float* g, const float* b, int rows, int width,
            const int block_size) {
    assert(block_size % 32 == 0);
    const int grid = (rows * 32 + block_size - 1) / block_size;
    layer_norm_warp<<<grid, block_size>>>(y, m, r, x, g, b, rows, width);
}
