#include "pack128.cuh"

__global__ void layer_norm_shared(elem* __restrict__ y, float* __restrict__ mean_out, float* __restrict__ rstd_out,
                                  const elem* __restrict__ x, const elem* __restrict__ gamma,
                                  const elem* __restrict__ beta, int rows, int width) {
    assert(blockDim.x == 32);
    extern __shared__ char raw[];
    pack* s_gamma = reinterpret_cast<pack*>(raw);
    pack* s_beta = reinterpret_cast<pack*>(raw) + (width / pack::size);
    pack* s_row = reinterpret_cast<pack*>(raw) + ((2 + threadIdx.y) * width / pack::size);

    int first = (threadIdx.x + 32 * threadIdx.y) * pack::size;
    for (int i = first; i < width; i += blockDim.y * 32 * pack::size) {
        s_gamma[i / pack::size] = load128(gamma + i);
        s_beta[i / pack::size] = load128(beta + i);
    }
    __syncthreads();

    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) { return; }
    x += row * width;
    y += row * width;

    const float eps = 1e-5f;
    float total = 0.0f;
    for (int c = threadIdx.x * pack::size; c < width; c += 32 * pack::size) {
        const pack in = load128cs(x + c);
        for (int k = 0; k < pack::size; ++k) { total += (float)in[k]; }
        s_row[c / pack::size] = in;
    }
    total = warp_sum(total);
    float mu = total / width;
    float var = 0.f;
    for (int c = threadIdx.x * pack::size; c < width; c += 32 * pack::size) {
        const pack in = s_row[c / pack::size];
        for (int k = 0; k < pack::size; ++k) {
            var += ((float)in[k] - mu) * ((float)in[k] - mu);
        }
    }
    var = warp_sum(var) / width;
    float rstd = rsqrtf(var + eps);
    for (int c = threadIdx.x * pack::size; c < width; c += 32 * pack::size) {
        const pack in = s_row[c / pack::size];
        const pack g = s_gamma[c / pack::size];
        const pack b = s_beta[c / pack::size];
        pack out;
        for (int k = 0; k < pack::size; ++k) {
            float hat = rstd * ((float)in[k] - mu);
            out[k] = (elem)(hat * (float)g[k] + (float)b[k]);
        }
        store128cs(y + c, out);
    }
    if (threadIdx.x == 0 && mean_out != nullptr) { __stcs(mean_out + row, mu); }
    if (threadIdx.x == 0 && rstd_out != nullptr) { __stcs(rstd_out + row, rstd); }
}
