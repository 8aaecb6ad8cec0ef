"""Sample kernels whose accesses go where loaded numbers say. Written for this purpose; none is
somebody else's.
"""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE

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

SEGMENT_PRODUCT = (
    POINTER
    + """
@triton.jit
def by_owner(x, y, starts, out, K, N, T: tl.constexpr, TK: tl.constexpr, TN: tl.constexpr):
    owner = tl.program_id(2)
    k = tl.program_id(0) * TK + tl.arange(0, TK)
    n = tl.program_id(1) * TN + tl.arange(0, TN)
    low = tl.load(starts + owner)
    high = tl.load(starts + owner + 1)
    acc = tl.zeros([TK, TN], tl.float32)
    for first in range(low, high, T):
        rows = first + tl.arange(0, T)
        inside = rows[:, None] < high
        a = tl.load(x + rows[:, None] * K + k[None, :], mask=inside, other=0.0)
        b = tl.load(y + rows[:, None] * N + n[None, :], mask=inside, other=0.0)
        acc += tl.dot(tl.trans(a), b)
    tl.store(out + owner * K * N + k[:, None] * N + n[None, :], acc)
"""
)

SEGMENT_PRODUCT_TILE = (
    TILE
    + """
@ct.kernel
def by_owner(x, y, starts, out, T: Int, TK: Int, TN: Int):
    owner = ct.bid(2)
    k = ct.bid(0) * TK + ct.arange(TK, dtype=ct.int32)
    n = ct.bid(1) * TN + ct.arange(TN, dtype=ct.int32)
    low = ct.gather(starts, owner)
    high = ct.gather(starts, owner + 1)
    acc = ct.zeros((TK, TN), ct.float32)
    for i in range(ct.cdiv(high - low, T)):
        rows = low + i * T + ct.arange(T, dtype=ct.int32)
        a = ct.gather(x, (rows[None, :], k[:, None]))
        b = ct.gather(y, (rows[:, None], n[None, :]))
        acc = ct.mma(a, b, acc)
    ct.store(out, (owner, ct.bid(0), ct.bid(1)), ct.reshape(acc, (1, TK, TN)))
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
