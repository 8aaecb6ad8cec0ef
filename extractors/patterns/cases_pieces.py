"""Attention whose threads multiply scores piece by piece with matrix instructions."""

from __future__ import annotations

PIECES_THREADS = """#include <cuda_fp16.h>
#include <cstdint>
__device__ void step(float* c, const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <int P>
__global__ void attend(const uint32_t* x, const uint32_t* y, float* out, int n) {
    int lane = threadIdx.x;
    uint32_t own[P][4], keys[P][2];
    for (int p = 0; p < P; ++p)
        for (int j = 0; j < 4; ++j) own[p][j] = x[(p * 4 + j) * 32 + lane];
    for (int p = 0; p < P; ++p)
        for (int j = 0; j < 2; ++j) keys[p][j] = y[(p * 2 + j) * 32 + lane];
    float top = -INFINITY, total = 0.f;
    for (int i = 1; i < n; ++i) {
        float c[4] = {0.f, 0.f, 0.f, 0.f};
        for (int p = 0; p < P; ++p) step(c, own[p], keys[p]);
        for (int p = 0; p < P; ++p)
            for (int j = 0; j < 2; ++j) keys[p][j] = y[((i * P + p) * 2 + j) * 32 + lane];
        float now = top;
        for (int j = 0; j < 4; ++j) now = fmaxf(now, c[j]);
        for (int o = 1; o < 4; o <<= 1) now = fmaxf(now, __shfl_xor_sync(~0u, now, o));
        total *= exp2f(top - now);
        for (int j = 0; j < 4; ++j) {
            c[j] = exp2f(c[j] - now);
            total += c[j];
        }
        top = now;
    }
    for (int o = 1; o < 4; o <<= 1) total += __shfl_xor_sync(~0u, total, o);
    out[lane] = total;
}
"""  # noqa: E501
"""The next keys are under way while the scores of the ones before are computed."""
