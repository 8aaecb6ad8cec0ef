#include <cuda_fp16.h>
#define LDMATRIX_X4(R0, R1, R2, R3, addr) \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2(R0, R1, addr) \
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n" \
                 : "=r"(RD0), "=r"(RD1) : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))
#define CP_ASYNC_CG(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

template <int STAGES>
__global__ void __launch_bounds__(256) hgemm_mma(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
                                                 int M, int N, int K) {
    constexpr int BM = 128;
    constexpr int BN = 128;
    constexpr int BK = 16;
    const int bx = blockIdx.x;
    const int by = blockIdx.y;
    __shared__ half s_a[STAGES][BM][BK + 8];
    __shared__ half s_b[STAGES][BK][BN + 8];
    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int warp_id = tid / 32;
    const int lane_id = tid % 32;
    const int warp_m = warp_id % 2;
    const int warp_n = warp_id / 2;
    int load_a_m = tid / 2;
    int load_a_k = (tid % 2 == 0) ? 0 : 8;
    int load_b_k = tid / 16;
    int load_b_n = (tid % 16) * 8;
    int gm = by * BM + load_a_m;
    int gn = bx * BN + load_b_n;
    if (gm >= M || gn >= N) return;
    uint32_t RC[4][4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            RC[i][j][0] = 0;
            RC[i][j][1] = 0;
        }
    }
    const int tiles = (K + BK - 1) / BK;
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        uint32_t a_ptr = __cvta_generic_to_shared(&s_a[s][load_a_m][load_a_k]);
        CP_ASYNC_CG(a_ptr, &A[gm * K + s * BK + load_a_k], 16);
        uint32_t b_ptr = __cvta_generic_to_shared(&s_b[s][load_b_k][load_b_n]);
        CP_ASYNC_CG(b_ptr, &B[(s * BK + load_b_k) * N + gn], 16);
        CP_ASYNC_COMMIT_GROUP();
    }
    CP_ASYNC_WAIT_GROUP(STAGES - 2);
    __syncthreads();
    for (int k = STAGES - 1; k < tiles; ++k) {
        int cur = (k + 1) % STAGES;
        int next = k % STAGES;
        uint32_t a_ptr = __cvta_generic_to_shared(&s_a[next][load_a_m][load_a_k]);
        CP_ASYNC_CG(a_ptr, &A[gm * K + k * BK + load_a_k], 16);
        uint32_t b_ptr = __cvta_generic_to_shared(&s_b[next][load_b_k][load_b_n]);
        CP_ASYNC_CG(b_ptr, &B[(k * BK + load_b_k) * N + gn], 16);
        CP_ASYNC_COMMIT_GROUP();
        uint32_t RA[4][4];
        uint32_t RB[4][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int m = warp_m * 64 + i * 16 + lane_id % 16;
            int kk = (lane_id / 16) * 8;
            uint32_t p = __cvta_generic_to_shared(&s_a[cur][m][kk]);
            LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], p);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int n = warp_n * 32 + j * 8;
            uint32_t p = __cvta_generic_to_shared(&s_b[cur][lane_id % 16][n]);
            LDMATRIX_X2(RB[j][0], RB[j][1], p);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1], RC[i][j][0], RC[i][j][1]);
            }
        }
        CP_ASYNC_WAIT_GROUP(STAGES - 2);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int m = by * BM + warp_m * 64 + i * 16 + lane_id / 4;
            int n = bx * BN + warp_n * 32 + j * 8 + (lane_id % 4) * 2;
            *reinterpret_cast<half2*>(&C[m * N + n]) = *reinterpret_cast<half2*>(&RC[i][j][0]);
            *reinterpret_cast<half2*>(&C[(m + 8) * N + n]) = *reinterpret_cast<half2*>(&RC[i][j][1]);
        }
    }
}
