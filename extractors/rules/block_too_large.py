# ruff: noqa: E501
"""A block grows with a size that nothing bounds."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding

_HEADS = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* out, int heads) {
  int i = (blockIdx.x * heads + threadIdx.y) * blockDim.x + threadIdx.x;
  out[i] = 2.0f * x[i];
}

void run(const float* x, float* out, int rows, int heads, cudaStream_t stream) {
  dim3 grid(rows);
  dim3 block(32, heads);
  twice<<<grid, block, 0, stream>>>(x, out, heads);
}
"""


class BlockTooLarge(Rule):
    """An extent of the block is a size that the host is given, or a part of it, and no condition of
    the file speaks of it: from some value on the block has more than 1,024 threads, and the launch
    fails."""

    name = "block-too-large"
    dialects = ("cuda",)
    matches = (
        Case(_HEADS, "`heads`"),
        Case(vary(_HEADS, ("block(32, heads)", "block(heads / 4)")), "`heads`"),
    )
    near_misses = (
        NearMiss(
            vary(_HEADS, ("  dim3 grid", "  if (heads > 32) return;\n  dim3 grid")),
            why="the host asks for it",
        ),
        NearMiss(
            vary(_HEADS, ("#include <cuda_runtime.h>", "#include <cuda_runtime.h>\n#include <algorithm>"),
                 ("block(32, heads)", "block(32, std::min(heads, 32))")),
            why="it is held below a number",
        ),
        NearMiss(
            vary(_HEADS, ("block(32, heads)", "block(heads)")),
            why="who calls says how many threads a block has",
        ),
        NearMiss(vary(_HEADS, ("block(32, heads)", "block(32, 8)")), why="as many threads whatever the size"),
        NearMiss(
            vary(_HEADS, ("block(32, heads)", "block(256)"), ("grid(rows)", "grid(rows, heads)")),
            why="the grid grows, not the block",
        ),
    )  # fmt: skip
    seen = (
        Seen(
            "flashinfer-python",
            "flashinfer/data/include/flashinfer/attention/cascade.cuh",
            "MergeStateKernel",
            587,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        blocks = subject.host.large_blocks
        if blocks:
            names = ", ".join(f"`{one.size}`" for one in blocks[:4])
            yield self.finding(
                subject,
                f"the block grows with {names}, and no condition of this file keeps it within the "
                "1024 threads that a block may have: with more than 1024 threads the launch fails",
                "loop over what does not fit the block, or refuse it before the launch",
                [lines for one in blocks for lines in one.lines],
            )
