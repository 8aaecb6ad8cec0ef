"""Words that hold several numbers, taken apart. Written for this purpose."""

from __future__ import annotations

from extractors.patterns.cases import POINTER, TILE

UNPACK = (
    POINTER
    + """
@triton.jit
def unpack(words, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    word = tl.load(words + at // 8, mask=at < n)
    tl.store(out + at, (word >> ((at % 8) * 4)) & 15, mask=at < n)
"""
)
UNPACK_TILE = (
    TILE
    + """
@ct.kernel
def unpack(words, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    word = ct.gather(words, at // 8)
    ct.scatter(out, at, (word >> ((at % 8) * 4)) & 15)
"""
)
