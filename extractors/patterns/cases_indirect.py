"""Sample kernels whose accesses go where loaded numbers say. Written for this purpose; none is
somebody else's.
"""

from __future__ import annotations

from extractors.patterns.cases import POINTER

ROWS = (
    POINTER
    + """
@triton.jit
def pick(x, rows, out, s, n, T: tl.constexpr, W: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    row = tl.load(rows + at, mask=at < n)
    c = tl.arange(0, W)
    inside = at[:, None] < n
    v = tl.load(x + row[:, None] * s + c[None, :], mask=inside)
    tl.store(out + at[:, None] * s + c[None, :], v, mask=inside)
"""
)

SEGMENT = (
    POINTER
    + """
@triton.jit
def segment(x, starts, out, s, T: tl.constexpr):
    first = tl.load(starts + tl.program_id(1))
    at = first + tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at))
"""
)

SPARSE = (
    POINTER
    + """
@triton.jit
def rows(x, starts, out, n, T: tl.constexpr):
    own = tl.program_id(0)
    total = tl.zeros([T], tl.float32)
    for i in range(tl.load(starts + own), tl.load(starts + own + 1)):
        total += tl.load(x + i * T + tl.arange(0, T))
    tl.store(out + own * T + tl.arange(0, T), total)
"""
)

CODES = (
    POINTER
    + """
@triton.jit
def decode(table, words, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    code = tl.load(words + at, mask=at < n, other=0) % 16
    tl.store(out + at, tl.load(table + code), mask=at < n)
"""
)

ROWS_THREADS = """__global__ void segment(const float* x, const int* starts, float* out, int n) {
    int at = starts[blockIdx.y] + blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at];
}
"""

TABLE_THREADS = """__global__ void turn(const float* table, const int* places, float* out, int n) {
    float c = table[places[blockIdx.x] * 64 + threadIdx.x % 32 * 2];
    out[blockIdx.x * n + threadIdx.x] = c;
}
"""

SLOT_THREADS = """__global__ void put(const float* x, const int* slots, float* out, int size,
                    bool wide) {
    int slot = slots[blockIdx.x];
    float* page = out + slot / size * 4096;
    float* to = wide ? page + slot % size * 128 : page + slot % size * 64;
    to[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
}
"""
