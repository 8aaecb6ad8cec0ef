"""Sample kernels whose blocks share out a reduced axis. Written for this purpose; none is somebody
else's.
"""

from __future__ import annotations

from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS

SPLIT = vary(
    PRODUCT,
    ("TK: Int):", "TK: Int, PER: Int):\n    z = ct.bid(2)"),
    ("for k in range(ct.num_tiles(a, axis=1, shape=(TM, TK))):", "for k in range(z * PER, (z + 1) * PER):"),  # noqa: E501
    ("ct.store(out, index=(m, n), tile=ct.astype(acc, out.dtype))",
     "ct.store(out, index=(z, m, n), tile=ct.reshape(ct.astype(acc, out.dtype), (1, TM, TN)))"),
)  # fmt: skip
SPLIT_THREADS = vary(
    PRODUCT_THREADS,
    ("int M, int N, int K)", "int M, int N, int K, int per)"),
    (
        "for (int t = 0; t < K; t += T)",
        "for (int t = blockIdx.z * per; t < (blockIdx.z + 1) * per; t += T)",
    ),
    ("out[m * N + n]", "out[(blockIdx.z * M + m) * N + n]"),
)
SPLIT_ATOMIC_POINTER = (
    POINTER
    + """
@triton.jit
def gemv(a, b, out, N, TK: tl.constexpr, TN: tl.constexpr):
    n = tl.program_id(0) * TN + tl.arange(0, TN)
    k = tl.program_id(1) * TK + tl.arange(0, TK)
    x = tl.load(a + k)
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.atomic_add(out + n, tl.sum(x[:, None] * y, axis=0))
"""
)

SPLIT_PACKED_POINTER = (
    POINTER
    + """
@triton.jit
def product(a, b, scales, out, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
            PARTS: tl.constexpr):
    z = tl.program_id(1)
    m = tl.program_id(0) // (N // TN) * TM + tl.arange(0, TM)
    n = tl.program_id(0) % (N // TN) * TN + tl.arange(0, TN)
    k = z * TK + tl.arange(0, TK)
    pa = a + m[:, None] * K + k[None, :]
    pb = b + (k[:, None] // 2) * N + n[None, :]
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for t in range(tl.cdiv(K, TK * PARTS)):
        w = (tl.load(pb) >> (k[:, None] % 2 * 4)) & 15
        s = tl.load(scales + t * N + n)
        acc += tl.dot(tl.load(pa), (w * s[None, :]).to(tl.float16))
        pa += TK * PARTS
        pb += TK * PARTS // 2 * N
    tl.atomic_add(out + m[:, None] * N + n[None, :], acc)
"""
)
"""A product in parts: one operand is packed, and its scales are the same for all parts."""

SPLIT_LANES_POINTER = (
    POINTER
    + """
@triton.jit
def gemv(a, b, scales, out, N, K, TK: tl.constexpr, TN: tl.constexpr, PARTS: tl.constexpr):
    z = tl.program_id(1)
    n = tl.program_id(0) * TN + tl.arange(0, TN)
    acc = tl.zeros((TN,), dtype=tl.float32)
    for t in range(z, K // TK, PARTS):
        k = t * TK + tl.arange(0, TK)
        w = tl.load(b + n[:, None] * (K // 2) + k[None, :] // 2) >> (k[None, :] % 2 * 4) & 15
        w = w * tl.load(scales + n[:, None] * (K // 64) + k[None, :] // 64)
        acc += tl.sum(w * tl.load(a + k)[None, :], axis=1)
    if PARTS == 1:
        tl.store(out + n, acc)
    else:
        tl.atomic_add(out + n, acc)
"""
)
"""A matrix times a vector in parts, multiplied and summed lane by lane."""
