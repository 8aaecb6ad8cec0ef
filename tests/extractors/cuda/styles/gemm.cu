#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))

__global__ void sgemm_naive(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    const uint row = blockIdx.x * blockDim.x + threadIdx.x;
    const uint col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; ++k) {
            acc += A[row * K + k] * B[k * N + col];
        }
        C[row * N + col] = alpha * acc + beta * C[row * N + col];
    }
}

template <const int TILE>
__global__ void sgemm_shared(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    const uint by = blockIdx.x;
    const uint bx = blockIdx.y;
    __shared__ float As[TILE * TILE];
    __shared__ float Bs[TILE * TILE];
    const uint tx = threadIdx.x % TILE;
    const uint ty = threadIdx.x / TILE;
    A += by * TILE * K;
    B += bx * TILE;
    C += by * TILE * N + bx * TILE;
    float acc = 0.0f;
    for (int base = 0; base < K; base += TILE) {
        As[ty * TILE + tx] = A[ty * K + tx];
        Bs[ty * TILE + tx] = B[ty * N + tx];
        __syncthreads();
        A += TILE;
        B += TILE * N;
        for (int k = 0; k < TILE; ++k) {
            acc += As[ty * TILE + k] * Bs[k * TILE + tx];
        }
        __syncthreads();
    }
    C[ty * N + tx] = alpha * acc + beta * C[ty * N + tx];
}

template <const int BM, const int BN, const int BK, const int TM, const int TN>
__global__ void __launch_bounds__((BM * BN) / (TM * TN), 1)
sgemm_registers(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C) {
    const uint by = blockIdx.y;
    const uint bx = blockIdx.x;
    const int tx = threadIdx.x % (BN / TN);
    const int ty = threadIdx.x / (BN / TN);
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    A += by * BM * K;
    B += bx * BN;
    C += by * BM * N + bx * BN;
    const uint a_row = threadIdx.x / (BK / 4);
    const uint a_col = threadIdx.x % (BK / 4);
    const uint b_row = threadIdx.x / (BN / 4);
    const uint b_col = threadIdx.x % (BN / 4);
    float acc[TM * TN] = {0.0};
    float a_reg[TM] = {0.0};
    float b_reg[TN] = {0.0};
    for (uint base = 0; base < K; base += BK) {
        float4 tmp = reinterpret_cast<float4*>(&A[a_row * K + a_col * 4])[0];
        As[(a_col * 4 + 0) * BM + a_row] = tmp.x;
        As[(a_col * 4 + 1) * BM + a_row] = tmp.y;
        As[(a_col * 4 + 2) * BM + a_row] = tmp.z;
        As[(a_col * 4 + 3) * BM + a_row] = tmp.w;
        reinterpret_cast<float4*>(&Bs[b_row * BN + b_col * 4])[0] =
            reinterpret_cast<float4*>(&B[b_row * N + b_col * 4])[0];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (uint k = 0; k < BK; ++k) {
            for (uint i = 0; i < TM; ++i) {
                a_reg[i] = As[k * BM + ty * TM + i];
            }
            for (uint j = 0; j < TN; ++j) {
                b_reg[j] = Bs[k * BN + tx * TN + j];
            }
            for (uint i = 0; i < TM; ++i) {
                for (uint j = 0; j < TN; ++j) {
                    acc[i * TN + j] += a_reg[i] * b_reg[j];
                }
            }
        }
        __syncthreads();
    }
    for (uint i = 0; i < TM; i += 1) {
        for (uint j = 0; j < TN; j += 4) {
            float4 c = reinterpret_cast<float4*>(&C[(ty * TM + i) * N + tx * TN + j])[0];
            c.x = alpha * acc[i * TN + j] + beta * c.x;
            c.y = alpha * acc[i * TN + j + 1] + beta * c.y;
            c.z = alpha * acc[i * TN + j + 2] + beta * c.z;
            c.w = alpha * acc[i * TN + j + 3] + beta * c.w;
            reinterpret_cast<float4*>(&C[(ty * TM + i) * N + tx * TN + j])[0] = c;
        }
    }
}

void run(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C) {
    const uint BK = 8;
    const uint TM = 8;
    const uint TN = 8;
    const uint BM = 128;
    const uint BN = 128;
    dim3 gridDim(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
    dim3 blockDim((BM * BN) / (TM * TN));
    sgemm_registers<BM, BN, BK, TM, TN><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
}
