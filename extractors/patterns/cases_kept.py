"""Sample kernels whose rows or tiles are loaded once and used again, or twice in other parts.
Written for this purpose.
"""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE, vary

GROUPS_POINTER = (
    POINTER
    + """
@triton.jit
def quantise(x, out, scales, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    g = tl.reshape(v * tl.sigmoid(v), (T // 32, 32))
    top = tl.max(tl.abs(g), axis=1)
    tl.store(scales + tl.program_id(0) * (T // 32) + tl.arange(0, T // 32), top)
    tl.store(out + at, tl.reshape(g / top[:, None], (T,)), mask=at < n)
"""
)
"""Groups of a row are scaled by their maximum; the row is seen as rows of groups."""

GROUPS_TILE = (
    TILE
    + """
@ct.kernel
def quantise(x, out, T: Int):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    g = ct.reshape(v, (T // 32, 32))
    top = ct.max(ct.abs(g), axis=1, keepdims=True)
    ct.store(out, index=(ct.bid(0),), tile=ct.reshape(g / top, (T,)))
"""
)

GROUPS_IN_ROUNDS = (
    POINTER
    + """
@triton.jit
def quantise(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(out + row * n + at, v / tl.max(tl.abs(v), axis=0), mask=at < n)
"""
)
"""Every round takes a group of its own."""

SUMMED_ON = vary(
    GROUPS_IN_ROUNDS,
    ("    for j", "    acc = 0.0\n    for j"),
    ("v / tl.max(tl.abs(v), axis=0)", "v * acc"),
    ("        tl.store", "        acc += tl.sum(v, axis=0)\n        tl.store"),
)
"""The sum goes on from round to round."""

BALANCED = (
    POINTER
    + """
@triton.jit
def balance(x, n, T: tl.constexpr):
    at = tl.arange(0, T)
    place = x + tl.program_id(0) * T * T + at[:, None] * T + at[None, :]
    v = tl.exp(tl.load(place))
    for _ in range(n):
        v = v / tl.sum(v, axis=1)[:, None]
        v = v / tl.sum(v, axis=0)[None, :]
    tl.store(place, v)
"""
)
"""A matrix stays in registers while its rows and columns are scaled again and again."""

BALANCED_TILE = (
    TILE
    + """
@ct.kernel
def balance(x, n: int, T: Int):
    v = ct.load(x, index=(ct.bid(0), 0, 0), shape=(1, T, T)).reshape((T, T))
    for _ in range(n):
        v = v / ct.sum(v, axis=1, keepdims=True)
        v = v / ct.sum(v, axis=0, keepdims=True)
    ct.store(x, index=(ct.bid(0), 0, 0), tile=v.reshape((1, T, T)))
"""
)

OWN_PART = (
    POINTER
    + """
@triton.jit
def norm(x, out, N: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0) * N
    v = tl.load(x + row + tl.arange(0, N))
    r = tl.rsqrt(tl.sum(v * v, axis=0) / N)
    at = row + tl.program_id(1) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at) * r)
"""
)
"""Every block sums up the whole row and stores a part of it."""

OWN_PART_TILE = (
    TILE
    + """
@ct.kernel
def norm(x, out, N: Int, T: Int):
    v = ct.load(x, index=(ct.bid(0), 0), shape=(1, N))
    r = ct.rsqrt(ct.sum(v * v, axis=1, keepdims=True) / N)
    own = ct.load(x, index=(ct.bid(0), ct.bid(1)), shape=(1, T))
    ct.store(out, index=(ct.bid(0), ct.bid(1)), tile=own * r)
"""
)

TAIL = (
    POINTER
    + """
@triton.jit
def largest(x, out, n, T: tl.constexpr):
    row = tl.program_id(0) * n
    top = -float("inf")
    full = n // T
    for i in range(0, full):
        top = tl.maximum(top, tl.max(tl.load(x + row + i * T + tl.arange(0, T)), axis=0))
    for i in range(full, tl.cdiv(n, T)):
        at = i * T + tl.arange(0, T)
        last = tl.load(x + row + at, mask=at < n, other=-float("inf"))
        top = tl.maximum(top, tl.max(last, axis=0))
    tl.store(out + tl.program_id(0), top)
"""
)
"""A second loop goes on where the first one ends."""
LEFT = """__global__ void scale(const float* x, float* out, int n) {
    __shared__ float part[128];
    int at = blockIdx.x * 128 + threadIdx.x;
    float v = x[at];
    part[threadIdx.x] = fabsf(v);
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + s]);
        __syncthreads();
    }
    out[at] = v / part[0];
}
"""
"""Elements that a thread leaves in shared memory, and goes on with after all have met."""

AGAIN = (
    POINTER
    + """
@triton.jit
def norm(x, out, stat, n, T: tl.constexpr):
    place = tl.program_id(0) * n + tl.arange(0, T)
    inside = tl.arange(0, T) < n
    v = tl.load(x + place, mask=inside, other=0.0)
    r = tl.rsqrt(tl.sum(v * v, axis=0) / n)
    tl.store(stat + tl.program_id(0), r)
    w = tl.load(x + place, mask=inside, other=0.0)
    tl.store(out + place, w * r, mask=inside)
"""
)
"""A row in one tile that is not kept: it is loaded again once it was summed up."""

AGAIN_TILE = (
    TILE
    + """
@ct.kernel
def norm(x, out, N: Int, T: Int, WHOLE: ct.Constant[bool]):
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    if WHOLE:
        v = ct.gather(x, (row, at), check_bounds=False)
    else:
        v = ct.gather(x, (row, at), check_bounds=True, padding_value=0.0)
    r = ct.rsqrt(ct.sum(v * v, axis=0, keepdims=False) / N)
    if WHOLE:
        w = ct.gather(x, (row, at), check_bounds=False)
    else:
        w = ct.gather(x, (row, at), check_bounds=True, padding_value=0.0)
    ct.scatter(out, (row, at), w * r)
"""
)

FOLDED = (
    POINTER
    + """
@triton.jit
def fold(maps, rows, out, none, L: tl.constexpr, T: tl.constexpr):
    own = tl.program_id(0)
    lane = tl.arange(0, T)
    listed = tl.load(rows + own * L + tl.arange(0, L))
    count = tl.sum((listed != none).to(tl.int32))
    at = lane[:, None] * T + lane[None, :]
    acc = tl.zeros([T, T], dtype=tl.float32)
    for i in range(0, count):
        place = maps + tl.load(rows + own * L + i) * 2 * T * T
        a = tl.load(place + at)
        b = tl.load(place + T * T + at)
        acc = tl.dot(acc, a) + b
    tl.store(out + own * T * T + at, acc)
"""
)
"""A state that every step multiplies and adds to; as many steps as are listed."""

BOTH_LAYOUTS = (
    POINTER
    + """
@triton.jit
def cast(x, out, turned, rows, cols, sx, by, T: tl.constexpr):
    i = tl.program_id(0) * T + tl.arange(0, T)
    j = tl.program_id(1) * T + tl.arange(0, T)
    inside = (i[:, None] < rows) & (j[None, :] < cols)
    v = tl.load(x + i[:, None] * sx + j[None, :], mask=inside) * tl.load(by)
    tl.store(out + i[:, None] + j[None, :] * rows, v, mask=inside)
    across = (j[:, None] < cols) & (i[None, :] < rows)
    tl.store(turned + j[:, None] * rows + i[None, :], tl.trans(v), mask=across)
"""
)
"""One tile that goes into two arrays: column by column, and turned."""

MIXED = (
    POINTER
    + """
@triton.jit
def mix(x, d, v, w, first, second, n, T: tl.constexpr):
    at = tl.arange(0, T)
    own = tl.program_id(0) * n + at
    a = tl.load(x + own)
    b = tl.load(d + own)
    tl.store(first + own, tl.fma(b, tl.load(v + at), a))
    tl.store(second + own, tl.fma(b, tl.load(w + at), a))
"""
)
"""Two mixes of the same two rows, each by weights of its own."""

RUNNING_BY_PRODUCT = (
    POINTER
    + """
@triton.jit
def running(x, out, n, T: tl.constexpr, W: tl.constexpr):
    i = tl.arange(0, T)
    at = i[:, None] * W + tl.arange(0, W)[None, :]
    ones = tl.where(i[:, None] >= i[None, :], 1.0, 0.0)
    tl.store(out + at, tl.dot(ones, tl.load(x + at).to(tl.float32)))
"""
)
"""Running sums of columns by a product with a triangle of ones."""

SCALED_BETWEEN = (
    POINTER
    + """
@triton.jit
def values(q, k, do, gv, rate, W: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, T)[:, None] * W + tl.arange(0, W)[None, :]
    s = tl.dot(tl.load(k + at), tl.trans(tl.load(q + at)))
    s = s * rate
    tl.store(gv + at, tl.dot(s.to(tl.float16), tl.load(do + at)))
"""
)
"""A product of two loaded tiles that is scaled and enters another one."""

GROUPS_THREADS = """__global__ void groups(const float* x, float* out, float* scales, int count) {
    for (int g = blockIdx.x * blockDim.y + threadIdx.y; g < count; g += gridDim.x * blockDim.y) {
        float v = x[g * 32 + threadIdx.x];
        float top = fabsf(v);
        for (int s = 16; s > 0; s >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, s));
        if (threadIdx.x == 0) scales[g] = top / 448.f;
        out[g * 32 + threadIdx.x] = v / top;
    }
}
"""
"""Groups of a warp's width, each scaled by its own largest element."""
WALKED = """__global__ void scale(const float* x, const float* w, float* out, int rows, int n) {
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            out[row * n + i] = x[row * n + i] * w[i];
        }
    }
}
"""
BIASED = """__global__ void add(const float* x, const float* bias, float* out, int n) {
    int at = blockIdx.x * n + threadIdx.x;
    out[at] = x[at] + bias[threadIdx.x];
}
"""
SLOTS = """__global__ void combine(const float* x, const float* by, float* out, int k, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float sum = 0.f;
        for (int s = 0; s < k; ++s) sum += by[blockIdx.x * k + s] * x[(blockIdx.x * k + s) * n + i];
        out[blockIdx.x * n + i] = sum;
    }
}
"""
COLUMNS = (
    POINTER
    + """
@triton.jit
def gain(x, w, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    own = tl.program_id(1) * n + at
    tl.store(out + own, tl.load(x + own) * tl.load(w + at))
"""
)
COLUMN_TILES = (
    TILE
    + """
@ct.kernel
def gain(x, w, out, T: Int):
    g = ct.load(w, index=(ct.bid(1),), shape=(T,))
    v = ct.load(x, index=(ct.bid(0), ct.bid(1)), shape=(1, T))
    ct.store(out, index=(ct.bid(0), ct.bid(1)), tile=v * g)
"""
)

VECTORS_KEPT = """__global__ void norm(const float* x, float* out, int n) {
    float v[16], sum = 0.f;
    const float* own = x + blockIdx.x * n + threadIdx.x * 4;
    for (int i = 0; i < 4; ++i) {
        float* part = v + i * 4;
        *reinterpret_cast<float4*>(part) = *reinterpret_cast<const float4*>(own + i * 128);
        for (int j = 0; j < 4; ++j) sum += part[j] * part[j];
    }
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            out[blockIdx.x * n + threadIdx.x * 4 + i * 128 + j] = v[i * 4 + j] / sum;
}
"""
"""Whole vectors that a thread brings into an array of registers."""

ROUNDS_OF_CHOICE = """__global__ void most(const float* x, float* out, int n, int k) {
    float v[4];
    for (int i = 0; i < 4; ++i) v[i] = x[blockIdx.x * n + i * 32 + threadIdx.x];
    for (int round = 0; round < k; ++round) {
        float top = v[0];
        for (int i = 1; i < 4; ++i) top = fmaxf(top, v[i]);
        for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
        for (int i = 0; i < 4; ++i) if (v[i] == top) v[i] = -1e30f;
        if (threadIdx.x == 0) out[blockIdx.x * k + round] = top;
    }
}
"""
"""The largest of a row that lies in registers, again and again."""

EITHER_WAY = (
    POINTER
    + """
@triton.jit
def total(x, out, n, T: tl.constexpr, WHOLE: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    if WHOLE:
        tl.store(out + row, tl.sum(tl.load(x + row * n + at, mask=at < n, other=0.0)))
    else:
        acc = tl.zeros((T,), dtype=tl.float32)
        for i in range(0, n, T):
            acc += tl.load(x + row * n + i + at, mask=i + at < n, other=0.0)
        tl.store(out + row, tl.sum(acc))
"""
)
REGIMES = (
    POINTER
    + """
@triton.jit
def back(y, gx, n, T: tl.constexpr, WHOLE: tl.constexpr):
    row = tl.program_id(0) * n
    at = tl.arange(0, T)
    if WHOLE:
        p = tl.load(y + row + at, mask=at < n)
        tl.store(gx + row + at, p * tl.sum(p), mask=at < n)
    else:
        acc = tl.zeros((T,), dtype=tl.float32)
        for i in range(0, n, T):
            acc += tl.load(y + row + i + at, mask=i + at < n, other=0.0)
        for i in range(0, n, T):
            p = tl.load(y + row + i + at, mask=i + at < n)
            tl.store(gx + row + i + at, p * tl.sum(acc), mask=i + at < n)
"""
)
