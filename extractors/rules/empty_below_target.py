"""Compiled for an older target a kernel does nothing."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding, Severity

_GUARDED = """
__global__ void twice(const float* x, float* out, int n) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900)
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  asm volatile("griddepcontrol.wait;");
  if (i < n) { out[i] = 2.0f * x[i]; }
#endif
}
"""
_STUB = """
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
__global__ void twice(const float* x, float* out, int n) {
  return;
}
#else
__global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = 2.0f * x[i]; }
}
#endif
"""


class EmptyBelowTarget(Rule):
    """The whole body of a kernel stands under a condition that only newer targets meet, or another
    definition with nothing in it stands for older ones: a launch there succeeds and writes
    nothing."""

    name = "empty-below-target"
    dialects = ("cuda",)
    matches = (
        Case(_GUARDED, "sm_90"),
        Case(vary(_GUARDED, (">= 900", ">= 1000")), "sm_100"),
        Case(_STUB, "sm_80"),
        Case(vary(_STUB, ("  return;\n", "")), "sm_80"),
    )
    near_misses = (
        NearMiss(
            vary(_GUARDED, ("#endif", "#else\n  __trap();\n#endif")),
            why="on older targets the kernel stops",
        ),
        NearMiss(
            vary(_GUARDED, ("#endif\n}", "#endif\n  out[0] = 0.0f;\n}")),
            why="something is done on every target",
        ),
        NearMiss(
            vary(_GUARDED, ('  asm volatile("griddepcontrol.wait;");\n', "#endif\n#if 1\n")),
            why="the condition ends before the kernel does",
        ),
        NearMiss(
            vary(_GUARDED, ("(__CUDA_ARCH__ >= 900)", "WIDE")), why="it does not ask for a target"
        ),
        NearMiss(
            vary(_STUB, ("  return;", "  out[0] = 0.0f;")), why="older targets have another kernel"
        ),
        NearMiss(
            vary(
                _STUB,
                (
                    "void twice(const float* x, float* out, int n) {\n  return",
                    "void once(int n) {\n  return",
                ),
            ),
            why="what is empty there is another kernel",
        ),
    )
    seen = (
        Seen(
            "flashinfer-python",
            "flashinfer/data/csrc/tinygemm2.cu",
            "tinygemm_kernel",
            149,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        found = subject.host.hollow
        if found is not None:
            yield self.finding(
                subject,
                f"compiled for a target below sm_{found.capability} the body is empty: a launch "
                "there succeeds, nothing is written and nothing says so",
                "refuse older devices before the launch, or stop in an #else",
                found.lines,
                Severity.NOTE,
            )
