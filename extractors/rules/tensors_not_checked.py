# ruff: noqa: E501
"""The host hands tensors to a kernel without a look at them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.evidence import Finding, Severity

MAX_TOLD = 4
"""Tensors that a message names."""

_ROWS = """
#include <torch/all.h>
__global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * n + threadIdx.x;
  if (threadIdx.x < n) { out[i] = 2.0f * x[i]; }
}

void run(torch::Tensor x, torch::Tensor out) {
  const int rows = x.size(0);
  const int n = x.size(1);
  twice<<<rows, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
}
"""


class TensorsNotChecked(Rule):
    """A function of the host takes tensors and hands their memory to a kernel, and no check on the
    way speaks of their sizes or their layout: one that is smaller, strided or transposed is read
    and written as if it were not."""

    name = "tensors-not-checked"
    dialects = ("cuda",)
    matches = (
        Case(_ROWS, "`x`, `out`"),
        Case(vary(_ROWS, ("(torch::Tensor x", "(const torch::Tensor& x")), "`x`, `out`"),
    )
    near_misses = (
        NearMiss(
            vary(_ROWS, ("  const int rows", "  TORCH_CHECK(x.is_contiguous());\n  const int rows")), why="the layout is checked"
        ),
        NearMiss(
            vary(_ROWS, ("  twice<<<", "  TORCH_CHECK(n == out.size(1));\n  twice<<<")), why="the sizes are compared"
        ),
        NearMiss(
            vary(_ROWS, ("  const int rows", "  check_all(x, out);\n  const int rows")), why="a function that is not shown may check"
        ),
        NearMiss(
            _ROWS + "\nvoid both(torch::Tensor x, torch::Tensor out) {\n  run(x, out);\n}\n",
            why="who calls it may check",
        ),
        NearMiss(
            vary(_ROWS, ("torch::Tensor x, torch::Tensor out", "const float* x, float* out, int rows, int n"),
                 ("  const int rows = x.size(0);\n  const int n = x.size(1);\n", ""),
                 ("x.data_ptr<float>(), out.data_ptr<float>()", "x, out")),
            why="pointers have no sizes",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        found = subject.host.trusted
        if found is not None:
            names = ", ".join(f"`{name}`" for name in found.names[:MAX_TOLD])
            more = " and others" if len(found.names) > MAX_TOLD else ""
            yield self.finding(
                subject,
                f"nothing checks the sizes and the layout of {names}{more} before the launch: what "
                "is smaller, strided or of another shape is read and written as if it were not",
                "check sizes, contiguity and types where the tensors come in",
                found.lines,
                Severity.NOTE,
            )
