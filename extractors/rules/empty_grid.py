# ruff: noqa: E501
"""A size of zero makes a grid without a block."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding, Severity

_ROWS = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * n + threadIdx.x;
  if (threadIdx.x < n) { out[i] = 2.0f * x[i]; }
}

void run(const float* x, float* out, int rows, int n, cudaStream_t stream) {
  dim3 grid(rows);
  dim3 block(256);
  twice<<<grid, block, 0, stream>>>(x, out, n);
}
"""
_TILES = vary(
    _ROWS,
    ("void run", "inline int tiles(int a, int b) { return (a + b - 1) / b; }\nvoid run"),
    ("grid(rows)", "grid(tiles(rows, 4))"),
)
_TENSOR = vary(
    _ROWS,
    ("const float* x, float* out, int rows, int n, cudaStream_t", "torch::Tensor x, torch::Tensor out, cudaStream_t"),
    ("  dim3 grid(rows);", "  const int rows = x.size(0);\n  const int n = x.size(1);\n  dim3 grid(rows);"),
    ("(x, out, n);\n}", "(x.data_ptr<float>(), out.data_ptr<float>(), n);\n}"),
)  # fmt: skip


class EmptyGrid(Rule):
    """An extent of the grid is zero when a size that the host is given is zero, and no condition of
    the file keeps it out: such a launch fails with an invalid configuration, and the error comes up
    where one is asked for next, although there was nothing to do."""

    name = "empty-grid"
    dialects = ("cuda",)
    matches = (
        Case(_ROWS, "`rows`"),
        Case(_TILES, "`rows`"),
        Case(vary(_ROWS, ("grid(rows)", "grid((rows + 3) / 4)")), "`rows`"),
        Case(vary(_ROWS, ("grid(rows)", "grid(2, rows * n)")), "`rows`, `n`"),
        Case(_TENSOR, "`x.shape[0]`"),
        Case(vary(_TENSOR, ("  dim3 grid", "  TORCH_CHECK(rows % 4 == 0);\n  dim3 grid")), "x"),
        Case(vary(_TENSOR, ("  dim3 grid", "  TORCH_CHECK(n >= rows);\n  dim3 grid")), "x"),
        Case(vary(_TENSOR, ("x.size(0)", "x.shape()[0]")), "x"),
    )
    near_misses = (
        NearMiss(
            vary(_ROWS, ("  dim3 grid", "  if (rows == 0) return;\n  dim3 grid")),
            why="the host returns before",
        ),
        NearMiss(
            vary(_TENSOR, ("  dim3 grid", "  if (x.numel() == 0) return;\n  dim3 grid")),
            why="the host returns before where the tensor has no elements",
        ),
        NearMiss(
            vary(_TENSOR, ("  dim3 grid", "  TORCH_CHECK(rows > 0);\n  dim3 grid")),
            why="the host refuses it",
        ),
        NearMiss(
            vary(_TENSOR, ("  dim3 grid", "  TORCH_CHECK(n < rows);\n  dim3 grid")),
            why="it is larger than another size",
        ),
        NearMiss(
            vary(_ROWS, ("dim3 grid(rows)", "dim3 grid(std::max(rows, 1))")),
            why="there is a block at least",
        ),
        NearMiss(vary(_ROWS, ("grid(rows)", "grid(rows / 4 + 1)")), why="one more than is needed"),
        NearMiss(
            vary(_TENSOR, ("  dim3 grid", "  check_sizes(x, out);\n  dim3 grid")),
            why="a function that is not known may look at it",
        ),
        NearMiss(
            vary(_ROWS, ("dim3 grid(rows)", "int threads = std::min(rows, 64);\n  dim3 grid((rows + threads - 1) / threads)")),
            why="it is divided by before",
        ),
        NearMiss(vary(_ROWS, ("grid(rows)", "grid(64)")), why="as many blocks whatever the size"),
        NearMiss(
            _ROWS + """
void both(const float* x, float* out, int m, int n, cudaStream_t stream) {
  if (m > 0) { run(x, out, m, n, stream); }
}
""",
            why="the function that calls the launcher keeps it out",
        ),
        NearMiss(
            vary(_ROWS, ("void run", "template <typename F> void some(int m, F&& launch) {\n  if (m == 0) return;\n  launch();\n}\nvoid run"),
                 ("  twice<<<", "  some(rows, [&] { twice<<<"), ("(x, out, n);\n}", "(x, out, n); });\n}")),
            why="the function that is handed the launch keeps it out",
        ),
        NearMiss(
            _ROWS
            + """
void both(torch::Tensor x, torch::Tensor out, cudaStream_t stream) {
  const int64_t m = x.size(0);
  TORCH_CHECK(m > 0, "no rows");
  const int count = static_cast<int>(m);
  run(x.data_ptr<float>(), out.data_ptr<float>(), count, 4, stream);
}
""",
            why="the function that calls the launcher refuses it under another name",
        ),
    )  # fmt: skip
    seen = (
        Seen(
            "flashinfer-python",
            "flashinfer/data/csrc/bgmv_moe/moe_bgmv_impl.cuh",
            "moe_bgmv_shrink_direct_kernel",
            415,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        grids = [one for one in subject.host.empty_grids if not one.divides]
        if grids:
            names = ", ".join(f"`{one.size}`" for one in grids[:4])
            yield self.finding(
                subject,
                f"where {names} is 0 the grid has zero blocks, which cannot be launched, and no "
                "condition of this file keeps it out",
                "return before the launch when there is nothing to do",
                [lines for one in grids for lines in one.lines],
                Severity.NOTE,
            )
