# ruff: noqa: E501
"""Blocks of one warp."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.evidence import Finding, Lines, Severity

_WARP = 32
_ROWS = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * 32 + threadIdx.x;
  if (i < n) { out[i] = 2.0f * x[i]; }
}

void run(const float* x, float* out, int n, cudaStream_t stream) {
  dim3 grid((n + 31) / 32);
  dim3 block(32);
  twice<<<grid, block, 0, stream>>>(x, out, n);
}
"""


class OneWarpBlocks(Rule):
    """Every launch has blocks of at most one warp, and more than one of them: a multiprocessor
    holds a limited number of blocks, which is half as many as it holds warps, or fewer."""

    name = "one-warp-blocks"
    dialects = ("cuda",)
    matches = (
        Case(_ROWS, "blocks of one warp"),
        Case(vary(_ROWS, ("block(32)", "block(8, 4)")), "blocks of one warp"),
        Case(vary(_ROWS, ("<<<grid, block, 0", "<<<(n + 31) / 32, 32, 0")), "blocks of one warp"),
    )
    near_misses = (
        NearMiss(vary(_ROWS, ("block(32)", "block(64)")), why="two warps"),
        NearMiss(vary(_ROWS, ("block(32)", "block(32, 4)")), why="four warps"),
        NearMiss(vary(_ROWS, ("grid((n + 31) / 32)", "grid(1)")), why="there is one block"),
        NearMiss(vary(_ROWS, ("block(32)", "block(n)")), why="as many threads as the host says"),
        NearMiss(
            vary(_ROWS, ("  twice<<<", "  if (n > 4096) twice<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);\n  else twice<<<")),
            why="another launch has larger blocks",
        ),
        NearMiss(_ROWS.partition("void run")[0], why="its launch was not read"),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        launches = subject.host.launches
        threads = [_threads(dict(one.hints)) for one in launches]
        alone = all(part == "1" for one in launches for part in one.grid)
        if not launches or alone or any(not 0 < count <= _WARP for count in threads):
            return
        yield self.finding(
            subject,
            "every launch has blocks of one warp: a multiprocessor holds half as many blocks as "
            "warps, or fewer, so that at most half of its warps are ever there, and each warp pays "
            "for the start of a block",
            "let a block take several rows or tiles, one for each of its warps",
            [*_made(subject), *(one.lines for one in launches)],
            Severity.NOTE,
        )


def _made(subject: Subject) -> list[Lines]:
    """Where the host makes the extents of the blocks."""
    told = (one for one in subject.host.decisions if one.axis == "num_warps")
    return [lines for one in told for lines in one.lines]


def _threads(hints: dict[str, object]) -> int:
    """The threads of a block; 0 where they are not known."""
    found = 1
    for axis in ("block_x", "block_y", "block_z"):
        extent = hints.get(axis, 1 if axis != "block_x" else 0)
        if not isinstance(extent, int):
            return 0
        found *= extent
    return found
