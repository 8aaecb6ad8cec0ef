"""Blocks whose loops look for something: where a group begins, a threshold, what is near."""

from extractors.patterns.cases import POINTER

SEARCHED = (
    POINTER
    + """
@triton.jit
def shift(x, starts, out, n, count, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    low = tl.program_id(0) * 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if tl.load(starts + middle) <= tl.program_id(0):
            low = middle + 1
        else:
            high = middle
    to = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + to, tl.load(x + at, mask=at < n) - low, mask=at < n)
"""
)
GROUPED_THREADS = """__global__ void pad(const float* x, const int* ends, const int* starts, float* out, int n, int k, int groups) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= n) return;
    int g = 0;
    while (g < groups - 1 && row >= ends[g]) ++g;
    int to = starts[g] + row;
    for (int i = threadIdx.x % 32; i < k; i += 32) out[to * k + i] = x[row * k + i];
}
"""  # noqa: E501
HALVED_THREADS = """__global__ void middle(const float* x, float* out, int n) {
    float low = 0.f, high = 1.f;
    do {
        float at = (low + high) / 2.f;
        int over = 0;
        for (int i = threadIdx.x; i < n; i += blockDim.x) over += x[blockIdx.x * n + i] > at;
        over = __syncthreads_count(over);
        if (over == 0) {
            if (threadIdx.x == 0) out[blockIdx.x] = low;
            return;
        }
        if (over > n / 2) low = at; else high = at;
    } while (high - low > 1e-4f);
    if (threadIdx.x == 0) out[blockIdx.x] = low;
}
"""
LISTED_PLACES_THREADS = """__global__ void near(const float* x, const int* starts, int* found,
                     int n) {
    int own = blockIdx.x * blockDim.x + threadIdx.x, to = starts[own], count = 0;
    bool done = own >= n;
    for (int i = 0; i < n && !done; ++i) {
        if (fabsf(x[i] - x[own]) < 1.f) found[to + count++] = i;
        done = count >= 32;
    }
}
"""
HANDED_ON_THREADS = """__global__ void items(const float* x, float* out, int* next, int n) {
    int item = blockIdx.x;
    while (item < n) {
        out[item * blockDim.x + threadIdx.x] = x[item * blockDim.x + threadIdx.x] * 2.f;
        item = atomicAdd(next, 1);
    }
}
"""
EITHER_PLACE_THREADS = """__device__ void both(float v, float* out, float* beside) {
    *out = v;
    if (beside != nullptr) *beside = v * 2.f;
}
__global__ void twice(const float* x, float* out, float* total, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float more = 0.f;
    both(x[at], out + at, total == nullptr ? nullptr : &more);
    if (total != nullptr) total[at] = more;
}
"""
