# ruff: noqa: E501
"""For some values the host launches nothing, and says nothing."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.evidence import Finding

_WIDTHS = """
#include <cuda_runtime.h>
template <int W> __global__ void twice(const float* x, float* out) {
  out[blockIdx.x * W + threadIdx.x] = 2.0f * x[blockIdx.x * W + threadIdx.x];
}
void run(const float* x, float* out, int rows, int width, cudaStream_t stream) {
  if (width == 64) {
    twice<64><<<rows, 64, 0, stream>>>(x, out);
  } else if (width == 128) {
    twice<128><<<rows, 128, 0, stream>>>(x, out);
  }
}
"""
_SWITCH = """
#include <cuda_runtime.h>
template <int W> __global__ void twice(const float* x, float* out) {
  out[blockIdx.x * W + threadIdx.x] = 2.0f * x[blockIdx.x * W + threadIdx.x];
}
cudaError_t run(const float* x, float* out, int rows, int width, cudaStream_t stream) {
  switch (width) {
    case 64: twice<64><<<rows, 64, 0, stream>>>(x, out); break;
    case 128: twice<128><<<rows, 128, 0, stream>>>(x, out); break;
  }
  return cudaGetLastError();
}
"""
_CALLED = vary(
    _WIDTHS,
    ("void run", "template <int W> void go(const float* x, float* out, int rows, cudaStream_t stream) {\n"
     "  twice<W><<<rows, W, 0, stream>>>(x, out);\n}\nvoid run"),
    ("twice<64><<<rows, 64, 0, stream>>>(x, out)", "go<64>(x, out, rows, stream)"),
    ("twice<128><<<rows, 128, 0, stream>>>(x, out)", "go<128>(x, out, rows, stream)"),
)  # fmt: skip


class LaunchesForSome(Rule):
    """Every branch of a chain launches a kernel, and there is no branch for what none of the
    conditions holds of: the function returns as if it had worked, and the results are what they
    were."""

    name = "launches-for-some"
    dialects = ("cuda",)
    matches = (Case(_WIDTHS, "launches nothing"), Case(_SWITCH, "launches nothing"),
               Case(_CALLED, "launches nothing"))  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_WIDTHS, ("(x, out);\n  }\n}", "(x, out);\n  } else { throw 1; }\n}")), why="others are refused"
        ),
        NearMiss(
            vary(_WIDTHS, ("  if (width == 64)", "  if (width != 64 && width != 128) throw 1;\n  if (width == 64)")),
            why="others are refused before",
        ),
        NearMiss(
            vary(_SWITCH, ("    case 128:", "    default:")), why="there is a branch for the rest"
        ),
        NearMiss(
            vary(_WIDTHS, ("  } else if (width == 128) {\n", "    return;\n  }\n  {\n")), why="the rest has a launch"
        ),
        NearMiss(
            vary(_SWITCH, ("  return cudaGetLastError();", "  if (width > 128) throw 1;\n  return cudaGetLastError();")),
            why="the function refuses something after it",
        ),
        NearMiss(
            vary(_WIDTHS, (" else if (width == 128) {\n    twice<128><<<rows, 128, 0, stream>>>(x, out);\n  }", "")),
            why="one condition alone may mean that there is nothing to do",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        lines = [one for chain in subject.host.left_out for one in chain]
        if lines:
            yield self.finding(
                subject,
                "where none of the conditions holds the function launches nothing and says nothing: "
                "it returns as if it had worked, and the results are left as they were",
                "end the chain with a branch that refuses what is left",
                lines,
            )
