"""Cases and near misses of launches that a loop of the host repeats."""

from __future__ import annotations

from extractors.host.parts import ARRAY, PART, REPEATED
from extractors.host.samples import ROWS_POINTER, ROWS_TILE, HostCase, HostMiss, vary

_CHUNKS = """def host(x, w):
    out = torch.empty_like(x)
    for i in range(0, x.shape[0], 128):
        end = min(i + 128, x.shape[0])
        rows(x[i:end], w, out[i:end])

def rows(x, w, out):
"""
_HEAD = "def host(x, w):\n    out = torch.empty_like(x)\n"
CHUNKS = vary(ROWS_POINTER, (_HEAD, _CHUNKS))
"""A function that launches, called for a range of rows after the other."""
CHUNKS_TILE = vary(ROWS_TILE, (_HEAD, _CHUNKS))
_EACH = """def host(x, y, w):
    out = torch.empty_like(x)
    for one in (x, y):
        grid = (one.shape[0],)
"""
EACH = vary(
    ROWS_POINTER,
    (_HEAD, _EACH),
    ("    kern[(x.shape[0],)](x, w", "        kern[grid](one, w"),
)
"""One array after the other."""
_LEVELS = (_CHUNKS, _CHUNKS.replace("x[i:end], w, out[i:end]", "x, w, out"))

CASES = (
    HostCase(REPEATED, CHUNKS, PART),
    HostCase(REPEATED, CHUNKS_TILE, PART),
    HostCase(REPEATED, EACH, ARRAY),
)
"""What must be seen."""

MISSES = (
    HostMiss(REPEATED, vary(CHUNKS, _LEVELS), "the whole array in every round"),
    HostMiss(REPEATED, vary(CHUNKS_TILE, _LEVELS), "the whole array in every round"),
    HostMiss(
        REPEATED,
        vary(
            CHUNKS,
            (
                "    out = torch.empty_like(x)\n    for",
                "    x = torch.randn(8, 9)\n    out = x\n    for",
            ),
        ),
        "a benchmark that draws its arrays",
    ),
    HostMiss(REPEATED, vary(EACH, ("grid](one,", "grid](x,")), "the same array in every round"),
    HostMiss(
        REPEATED,
        vary(EACH, ("(one.shape[0],)", "(one,)")),
        "what is named may be numbers",
    ),
)
"""What must not be seen."""
