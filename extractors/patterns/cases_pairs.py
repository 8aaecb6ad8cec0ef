"""Kernels that compare a row with others of the same array."""

from extractors.patterns.cases import POINTER

COMPARED_ROWS = (
    POINTER
    + """
@triton.jit
def pairs(q, k, g, beta, one, two, N, K: tl.constexpr, C: tl.constexpr):
    own = tl.program_id(0)
    at = tl.arange(0, K)
    a = tl.load(q + own * K + at)
    b = tl.load(k + own * K + at) * tl.load(beta + own)
    u = tl.load(g + own * K + at)
    for j in range(own // C * C, own + 1):
        w = tl.load(k + j * K + at) * tl.exp(u - tl.load(g + j * K + at))
        tl.store(one + own * C + j % C, tl.sum(a * w, axis=0))
        tl.store(two + own * C + j % C, tl.sum(b * w, axis=0) * tl.where(j < own, 1.0, 0.0))
"""
)
