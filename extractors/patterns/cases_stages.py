"""Source text for patterns of steps that one kernel puts behind each other."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, NORM_BACKWARD, ROW_NORM
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS

QUANTISED = vary(
    LAYER_NORM_POINTER,
    ("    tl.store(y + row * sy + at, (c * r * g + h).to(tl.float16), mask=inside)\n",
     "    o = c * r * g + h\n    s = tl.max(tl.abs(o)) / 448.0\n    tl.store(sy, s)\n"
     "    tl.store(y + row * n + at, (o / s).to(tl.float8e4nv), mask=inside)\n"),
)  # fmt: skip
QUANTISED_TILE = vary(
    ROW_NORM,
    ("    ct.scatter(out, (row, at), ct.astype(v * r * g, x.dtype), latency=1)\n",
     "    o = v * r * g\n    s = ct.max(ct.abs(o), axis=0, keepdims=True) / 127.0\n"
     "    ct.scatter(stat, row, s)\n    ct.scatter(out, (row, at), ct.astype(o / s, ct.int8))\n"),
)  # fmt: skip
QUANTISED_THREADS = vary(
    ROW_NORM_THREADS,
    ("half* out,", "signed char* out, const float* scale,"),
    ("= __float2half(v * r * g);",
     "= (signed char)fmaxf(-127.f, fminf(v * r * g / scale[0], 127.f));"),
)  # fmt: skip
TURNED = (
    POINTER
    + """
@triton.jit
def turn(x, w, cos, sin, out, n, eps, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    a = tl.load(x + row * n + at).to(tl.float32)
    b = tl.load(x + row * n + T + at).to(tl.float32)
    r = tl.rsqrt((tl.sum(a * a) + tl.sum(b * b)) / n + eps)
    a = a * r * tl.load(w + at)
    b = b * r * tl.load(w + T + at)
    c = tl.load(cos + row * T + at)
    s = tl.load(sin + row * T + at)
    tl.store(out + row * n + at, a * c - b * s)
    tl.store(out + row * n + T + at, b * c + a * s)
"""
)
TURNED_TILE = (
    TILE
    + """
@ct.kernel
def turn(x, cos, sin, out, scales, T: Int):
    row = ct.bid(0)
    a = ct.load(x, index=(row, 0), shape=(1, T))
    b = ct.load(x, index=(row, 1), shape=(1, T))
    c = ct.load(cos, index=(row, 0), shape=(1, T))
    s = ct.load(sin, index=(row, 0), shape=(1, T))
    k = ct.load(scales, index=(row, 0), shape=(1, 1))
    ct.store(out, index=(row, 0), tile=ct.astype((a * c - b * s) * k, ct.float8_e4m3fn))
    ct.store(out, index=(row, 1), tile=ct.astype((b * c + a * s) * k, ct.float8_e4m3fn))
"""
)
GATED = vary(
    LAYER_NORM_POINTER,
    ("    tl.store(y +", "    z = tl.load(b + n + row * sx + at)\n    tl.store(y +"),
    ("(c * r * g + h)", "((c * r * g + h) * z * tl.sigmoid(z))"),
)
GATED_BACK = vary(NORM_BACKWARD, ("wdy = dy * g", "wdy = dy * (1.0 / (1.0 + ct.exp(-dy))) * g"))
RECTIFIED = vary(PRODUCT_POINTER, ("acc.to(tl.float16)", "tl.maximum(acc, 0.0)"))

ROUTED = (
    POINTER
    + """
@triton.jit
def route(x, out, kind, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    best, place = tl.max(e / tl.sum(e, axis=0), axis=0, return_indices=True)
    tl.store(out + row, best)
    tl.store(kind + row, place)
"""
)
CONVOLVED = (
    POINTER
    + """
@triton.jit
def blur(x, w, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    u = tl.load(x + at, mask=at < n, other=0.0) * tl.load(w)
    u += tl.load(x + at + 1, mask=at + 1 < n, other=0.0) * tl.load(w + 1)
    tl.store(out + at, u * tl.sigmoid(u), mask=at < n)
"""
)
POWERS = (
    POINTER
    + """
@triton.jit
def powers(x, out, scales, n, T: tl.constexpr, R: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    at = row[:, None] * n + tl.arange(0, T)[None, :]
    v = tl.load(x + at)
    e = tl.ceil(tl.log2(tl.max(tl.abs(v), axis=1) / 448.0)) + 127.0
    e = tl.maximum(e, 0.0)
    tl.store(scales + row, e.to(tl.uint8))
    tl.store(out + at, (v / tl.exp2(e - 127.0)[:, None]).to(tl.float8e4nv))
"""
)

SCALED = vary(
    PRODUCT_POINTER,
    ("        acc +=", "        squares += tl.sum(x * x, axis=1)\n        acc +="),
    ("    for ", "    squares = tl.zeros((TM,), dtype=tl.float32)\n    for "),
    ("acc.to(tl.float16)", "acc * tl.rsqrt(squares / K)[:, None]"),
)
MODULATED = vary(
    LAYER_NORM_POINTER,
    ("(y, sy, x, sx,", "(y, sy, x, sx, z, u,"),
    (
        "(c * r * g + h)",
        "((c * r * g + h) * (1.0 + tl.load(z + row * sx + at, mask=inside, other=0.0))"
        " + tl.load(u + row * sx + at, mask=inside, other=0.0))",
    ),
)
DECAYED = vary(
    PRODUCT_POINTER,
    ("acc.to(", "(acc * tl.exp(tl.load(a + m) - tl.load(b + m))[:, None]).to("),
)
LOWER = vary(PRODUCT_POINTER, ("acc.to(", "tl.where(m[:, None] >= n[None, :], acc, 0.0).to("))
BESIDE = vary(
    PRODUCT_POINTER,
    ("    acc = ", "    own = tl.dot(tl.load(a + m[:, None] * 16 + n[None, :]), tl.load(b + m[:, None] * 16 + n[None, :]))\n    tl.store(b + m[:, None] * 16 + n[None, :], own)\n    acc = "),  # noqa: E501
)  # fmt: skip
CURVED = (
    POINTER
    + """
@triton.jit
def curve(out, x, g, h, n, W: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, W)
    v = tl.load(x + row * n + at, mask=at < n)
    y = tl.sigmoid(v) * tl.load(g + at, mask=at < n) + tl.load(h + at, mask=at < n)
    tl.store(out + row * n + at, y, mask=at < n)
"""
)

GATE = (
    POINTER
    + """
@triton.jit
def gated(x, out, n, W: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, W)
    v = tl.load(x + row * 2 * n + at, mask=at < n)
    u = tl.load(x + row * 2 * n + n + at, mask=at < n)
    tl.store(out + row * n + at, v * tl.sigmoid(v) * u, mask=at < n)
"""
)
GATE_TILE = (
    TILE
    + """
@ct.kernel
def gated(x, y, out, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(T,))
    u = ct.load(y, index=(i,), shape=(T,))
    ct.store(out, index=(i,), tile=v / (1.0 + ct.exp(-v)) * u)
"""
)
GATED_BEFORE_THREADS = """__global__ void gated(const float* x, float* out, int n, float a,
                      float top) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float g = fminf(x[2 * i], top);
        float u = fmaxf(fminf(x[2 * i + 1], top), -top);
        out[i] = (u + 1.0f) * g / (1.0f + expf(-g * a));
    }
}
"""
GATE_THREADS = """__global__ void gated(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i])) * y[i];
}
"""
TARGET = (
    POINTER
    + """
@triton.jit
def back(x, y, stat, out, n, W: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, W)
    p = tl.exp(tl.load(x + row * n + at, mask=at < n) - tl.load(stat + row))
    tl.store(out + row * n + at, tl.where(at == tl.load(y + row), p - 1.0, p), mask=at < n)
"""
)
OVER_CLASSES = (
    POINTER
    + """
@triton.jit
def classes(a, b, out, n, W: tl.constexpr):
    row = tl.program_id(0) * W + tl.arange(0, W)
    at = tl.arange(0, W)
    s = tl.dot(tl.load(a + row[:, None] * W + at[None, :]),
               tl.load(b + at[:, None] * W + at[None, :]))
    top = tl.max(s, axis=1)
    tl.store(out + row, top + tl.log(tl.sum(tl.exp(s - top[:, None]), axis=1)), mask=row < n)
"""
)
"""What a loss over classes normalises by: the scores weigh no other tile."""
SOFT_TARGET = (
    POINTER
    + """
@triton.jit
def back(x, y, out, n, W: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, W)
    inside = tl.arange(0, W) < n
    v = tl.load(x + at, mask=inside, other=-float("inf"))
    p = tl.exp(v - tl.max(v, axis=0))
    p = p / tl.sum(p, axis=0)
    tl.store(out + at, p - 0.9 * tl.load(y + at, mask=inside, other=0.0), mask=inside)
"""
)
PACKED = (
    POINTER
    + """
@triton.jit
def pack(x, out, scales, n, W: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, W)
    a = tl.load(x + row * n + 2 * at)
    b = tl.load(x + row * n + 2 * at + 1)
    top = tl.maximum(tl.max(tl.abs(a), axis=0), tl.max(tl.abs(b), axis=0))
    low = (a / top * 7.0).to(tl.uint8)
    high = (b / top * 7.0).to(tl.uint8)
    tl.store(scales + row, top)
    tl.store(out + row * W + at, low | (high << 4))
"""
)
MASKED = (
    TILE
    + """
@ct.kernel
def back(p, dp, out, n, W: Int):
    row = ct.bid(0)
    at = ct.arange(W, dtype=ct.int32)
    a = ct.gather(p, (row, at))
    b = ct.gather(dp, (row, at))
    g = a * (b - ct.sum(a * b, 0))
    ct.scatter(out, (row, at), g * ct.astype(at <= row, ct.float32))
"""
)
SHIFTED = (
    TILE
    + """
@ct.kernel
def step(x, w, state, out, W: Int):
    at = ct.bid(0) * W + ct.arange(W, dtype=ct.int32)
    a = ct.gather(state, (at, 0))
    b = ct.gather(state, (at, 1))
    v = ct.gather(x, (at,))
    y = a * ct.gather(w, (at, 0)) + b * ct.gather(w, (at, 1)) + v * ct.gather(w, (at, 2))
    ct.scatter(out, (at,), y)
    ct.scatter(state, (at, 0), b)
    ct.scatter(state, (at, 1), v)
"""
)
COMBINED_THREADS = """__global__ void combine(const float* x, const int* rows, const float* w,
                        float* out, int most, int n) {
    int at = threadIdx.x;
    float sum = 0.f;
    for (int k = 0; k < most; k++) {
        int row = rows[blockIdx.x * most + k];
        sum += w[blockIdx.x * most + k] * x[row * n + at];
    }
    out[blockIdx.x * n + at] = sum;
}
"""
COMBINED = (
    POINTER
    + """
@triton.jit
def combine(x, rows, w, out, most, n, T: tl.constexpr):
    own = tl.program_id(0)
    at = tl.arange(0, T)
    sum = tl.zeros((T,), dtype=tl.float32)
    for k in range(most):
        row = tl.load(rows + own * most + k)
        sum += tl.load(w + own * most + k) * tl.load(x + row * n + at, mask=at < n)
    tl.store(out + own * n + at, sum, mask=at < n)
"""
)
JOINED = (
    POINTER
    + """
@triton.jit
def join(a, b, out, half, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    first = at < half
    v = tl.load(a + at, mask=first, other=0.0)
    u = tl.load(b + at - half, mask=(at < n) & ~first, other=0.0)
    tl.store(out + at, tl.where(first, v, u), mask=at < n)
"""
)
MIXED = (
    TILE
    + """
@ct.kernel
def mix(a, x, b, y, out, T: Int):
    i = ct.bid(0)
    v = ct.load(a, index=(i,), shape=(T,)) * ct.load(x, index=(i,), shape=(T,))
    u = ct.load(b, index=(i,), shape=(T,)) * ct.load(y, index=(i,), shape=(T,))
    ct.store(out, index=(i,), tile=v + u)
"""
)
SUMMED_THREADS = """__global__ void plus(float* a, const float* b, const float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = a[i] + b[i] + c[i];
}
"""
SQUARES = vary(
    PRODUCT_POINTER,
    ("        acc +=", "        squares += tl.sum(x * x, axis=1)\n        acc +="),
    ("    for ", "    squares = tl.zeros((TM,), dtype=tl.float32)\n    for "),
    ("    tl.store(", "    tl.store(parts + m, squares)\n    tl.store("),
)
STEP = (
    TILE
    + """
@ct.kernel
def step(state, k, q, out, A: Int, B: Int):
    i = ct.bid(0)
    h = ct.load(state, index=(0, i), shape=(A, B))
    h = h * 0.9 + ct.load(k, index=(0, i), shape=(A, B))
    ct.store(state, index=(0, i), tile=h)
    ct.store(out, index=(i,), tile=ct.sum(h * ct.load(q, index=(0, 0), shape=(A, 1)), axis=0))
"""
)
TWICE = vary(
    LAYER_NORM_POINTER,
    (
        "    tl.store(y +",
        "    u = c * r * g + h\n    u = u * tl.rsqrt(tl.sum(u * u, axis=0) / n + eps)\n"
        "    tl.store(y +",
    ),
    ("(c * r * g + h).to", "u.to"),
)
LISTED = vary(
    PRODUCT_POINTER,
    ("(a, b, out, M,", "(a, b, out, ids, M,"),
    ("pa = a + m[:, None]", "pa = a + tl.load(ids + m)[:, None]"),
)
EMBEDDED = vary(
    LAYER_NORM_POINTER,
    ("(y, sy, x, sx,", "(y, sy, x, sx, ids,"),
    ("x + row * sx", "x + tl.load(ids + row) * sx"),
)
SCATTERED_THREADS = """__global__ void put(const float* x, signed char* out, const float* scale,
                    const int* slots, int n) {
    int at = threadIdx.x;
    float v = x[blockIdx.x * n + at] / scale[0];
    out[slots[blockIdx.x] * n + at] = (signed char)fmaxf(-127.f, fminf(v, 127.f));
}
"""
SUMMED_UP = (
    TILE
    + """
@ct.kernel
def gates(x, out, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(T,))
    ct.store(out, index=(i,), tile=ct.cumsum(1.0 / (1.0 + ct.exp(-v)), axis=0))
"""
)
