#include "pack128.cuh"
#define GELU_SCALE 0.7978845608f
__global__ void gelu_forward(elem* out, const elem* inp) {
    int idx = (blockIdx.x * blockDim.x + threadIdx.x) * pack::size;
    pack o;
    pack in = load128cs(inp + idx);
    for (int k = 0; k < in.size; ++k) {
        float xi = (float)in[k];
        float cube = 0.044715f * xi * xi * xi;
        o[k] = (elem)(0.5f * xi * (1.0f + tanhf(GELU_SCALE * (xi + cube))));
    }
    store128(out + idx, o);
}

__global__ void gelu_backward(elem* d_in_out, const elem* inp) {
    int idx = (blockIdx.x * blockDim.x + threadIdx.x) * pack::size;
    pack dinp;
    pack in = load128cs(inp + idx);
    pack dout = load128(d_in_out + idx);
    for (int k = 0; k < in.size; ++k) {
        float x = (float)in[k];
        float cube = 0.044715f * x * x * x;
        float arg = GELU_SCALE * (x + cube);
        float t = tanhf(arg);
        float c = coshf(arg);
        float sech2 = 1.0f / (c * c);
        float local = 0.5f * (1.0f + t) + x * 0.5f * sech2 * GELU_SCALE * (1.0f + 3.0f * 0.044715f * x * x);
        dinp[k] = (elem)(local * (float)dout[k]);
    }
    store128(d_in_out + idx, dinp);
}

__device__ float lerp(float start, float end, float weight) {
    return fma(weight, end, fma(-weight, start, start));
}
template <typename Tp, typename Tg>
__global__ void adamw(Tp* params, float* master, Tg* grads, float* m_mem, float* v_mem, size_t count, float lr,
                      float beta1, float beta2, float correction1, float correction2, float eps, float decay, unsigned int seed) {
    size_t idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= count) { return; }
    float grad = (float)grads[idx];
    float m = m_mem[idx];
    float v = v_mem[idx];
    m = lerp(grad, m, beta1);
    m_mem[idx] = m;
    v = lerp(grad * grad, v, beta2);
    v_mem[idx] = v;
    m /= correction1;
    v /= correction2;
    float old = (master != NULL) ? master[idx] : (float)params[idx];
    float param = old - (lr * (m / (sqrtf(v) + eps) + decay * old));
    params[idx] = (Tp)param;
    if (master != NULL) { master[idx] = param; }
}

__global__ void residual(elem* out, const elem* a, const elem* b) {
    int idx = (blockIdx.x * blockDim.x + threadIdx.x) * pack::size;
    pack o;
    const pack pa = load128cs(a + idx);
    const pack pb = load128cs(b + idx);
    for (int k = 0; k < pa.size; k++) {
        o[k] = (elem)((float)pa[k] + (float)pb[k]);
    }
    store128(out + idx, o);
}

template <class T>
__global__ void global_norm_squared(float* out, const T* data, size_t count) {
    __shared__ float part[32];
    size_t index = blockIdx.x * blockDim.x + threadIdx.x;
    size_t step = blockDim.x * gridDim.x;
    float total = 0.f;
    for (size_t i = index; i < count; i += step) {
        total += (float)data[i] * (float)data[i];
    }
    total = warp_sum(total);
    int lane = threadIdx.x % 32;
    int warp = threadIdx.x / 32;
    if (lane == 0) { part[warp] = total; }
    __syncthreads();
    float all = (lane < blockDim.x / 32) ? part[lane] : 0.0f;
    all = warp_sum(all);
    if (threadIdx.x == 0) { atomicAdd(out, all); }
}

__global__ void embed_forward(elem* out, const int* tokens, const elem* wte, const elem* wpe, int B, int T, int C) {
    int idx = (blockIdx.x * blockDim.x + threadIdx.x) * pack::size;
    int N = B * T * C;
    if (idx >= N) { return; }
    int bt = idx / C;
    int b = bt / T;
    int t = bt % T;
    int c = idx % C;
    int token = tokens[b * T + t];
    pack o;
    pack w = load128cs(wte + token * C + c);
    pack p = load128cs(wpe + t * C + c);
    for (int k = 0; k < pack::size; k++) {
        o[k] = (elem)((float)w[k] + (float)p[k]);
    }
    store128(out + b * T * C + t * C + c, o);
}

__global__ void embed_backward(float* dwte, float* dwpe, const float* dout, const int* tokens, int B, int T, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * C) {
        int bt = idx / C;
        int t = bt % T;
        int c = idx % C;
        int token = tokens[bt];
        atomicAdd(dwte + token * C + c, dout[idx]);
        atomicAdd(&dwpe[t * C + c], dout[idx]);
    }
}

__global__ void bias_backward(float* dbias, const float* dout, int B, int T, int OC) {
    __shared__ float s[4][32];
    int warp_id = threadIdx.x / 32;
    int lane_id = threadIdx.x % 32;
    int col = blockIdx.x * 32 + lane_id;
    float total = 0.0f;
    for (int row = warp_id; row < B * T; row += blockDim.x / 32) {
        total += dout[row * OC + col];
    }
    s[warp_id][lane_id] = total;
    __syncthreads();
    if (warp_id == 0) {
        for (int j = 1; j < blockDim.x / 32; j++) { total += s[j][lane_id]; }
        dbias[col] += total;
    }
}
