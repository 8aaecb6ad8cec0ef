"""What a launch relies on is checked by `assert` alone."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.evidence import Finding, Severity

_ASSERTED = """
#include <cassert>
__global__ void twice(const float4* x, float4* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = x[i];
  out[i] = make_float4(2.0f * v.x, 2.0f * v.y, 2.0f * v.z, 2.0f * v.w);
}

void run(const float* x, float* out, int n, cudaStream_t stream) {
  assert(n % 1024 == 0);
  twice<<<n / 1024, 256, 0, stream>>>((const float4*)x, (float4*)out);
}
"""
_OTHERWISE = vary(
    _ASSERTED,
    ("  assert(n % 1024 == 0);\n", ""),
    ("  twice<<<", "  if (n == 1024) twice<<<"),
    ("(float4*)out);\n}", "(float4*)out);\n  else assert(false);\n}"),
)
_HEADERS = (".cuh", ".h", ".hpp")
"""Functions of these are called from files that may check before."""


class CheckedByAssert(Rule):
    """A function of the host that launches the kernel, or one of the file that calls it, checks
    what it is given by `assert`: where the file is compiled with `NDEBUG`, as release builds are,
    nothing is checked, and the launch goes ahead or is left out without a word."""

    name = "checked-by-assert"
    dialects = ("cuda",)
    matches = (
        Case(_ASSERTED, "`assert`"),
        Case(_OTHERWISE, "`assert`"),
        Case(
            vary(
                _ASSERTED,
                ("  assert(n % 1024 == 0);\n", ""),
                ("(float4*)out);\n}\n", "(float4*)out);\n}\n\nvoid check(const float* x, float* out"
                 ", int n) {\n  assert(n % 1024 == 0);\n  run(x, out, n, 0);\n}\n"),
            ),
            "`assert`",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_ASSERTED, ("assert(", "TORCH_CHECK(")), why="a check that release builds keep"
        ),
        NearMiss(
            vary(_ASSERTED, ("assert(n % 1024 == 0);", "if (n % 1024 != 0) throw 1;")),
            why="a branch that throws",
        ),
        NearMiss(
            vary(_ASSERTED, ("assert(n % 1024 == 0)", "static_assert(sizeof(float4) == 16)")),
            why="checked when it is compiled",
        ),
        NearMiss(
            vary(
                _ASSERTED,
                ("  assert(n % 1024 == 0);\n", ""),
                ("(float4*)out);\n}", "(float4*)out);\n  assert(n > 0);\n}"),
            ),
            why="it is asserted behind the launch",
        ),
        NearMiss(
            vary(
                _ASSERTED,
                ("  assert(n % 1024 == 0);\n", ""),
                ("void run", "void other(int n) { assert(n > 0); }\n\nvoid run"),
            ),
            why="another function asserts something",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        home = subject.facts.kernel.entry.span.path
        if subject.host.asserted and not home.endswith(_HEADERS):
            yield self.finding(
                subject,
                "this file checks what is launched by `assert`, which checks nothing where NDEBUG "
                "is defined",
                "use a check that release builds keep",
                subject.host.asserted,
                Severity.NOTE,
            )
