# ruff: noqa: E501
"""A call of the runtime on the way to a launch says whether it failed, and nothing listens."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding, Severity

_PLAIN = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* out, int n) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { tile[threadIdx.x] = x[i]; out[i] = 2.0f * tile[threadIdx.x]; }
}

void run(const float* x, float* out, int n, int bytes, cudaStream_t stream) {
  cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  twice<<<(n + 255) / 256, 256, bytes, stream>>>(x, out, n);
}
"""
_ASKED = vary(
    _PLAIN,
    ("  cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);",
     "  int sms;\n  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);\n  n = n < sms ? n : sms;"),
)  # fmt: skip


class ResultDropped(Rule):
    """A call that fails, for too much shared memory or a bad pointer, says so by its result and as
    the last error. The function takes neither: what follows goes on with what was there before,
    and a launch that fails for it names another reason."""

    name = "result-dropped"
    dialects = ("cuda",)
    matches = (
        Case(_PLAIN, "`cudaFuncSetAttribute`"),
        Case(_ASKED, "`cudaDeviceGetAttribute`"),
        Case(
            vary(_PLAIN, ("cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);", "cudaMemsetAsync(out, 0, n, stream);")),
            "`cudaMemsetAsync`",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_PLAIN, ("  cudaFuncSetAttribute(", "  cudaError_t e = cudaFuncSetAttribute(")),
            why="the result is taken",
        ),
        NearMiss(
            vary(_PLAIN, ("  cudaFuncSetAttribute(", "  CHECKED(cudaFuncSetAttribute("), ("Size, bytes);", "Size, bytes));")),
            why="a macro takes the result",
        ),
        NearMiss(
            vary(_PLAIN, ("(x, out, n);\n", "(x, out, n);\n  if (cudaGetLastError() != cudaSuccess) throw 1;\n")),
            why="the last error is asked for afterwards",
        ),
        NearMiss(
            vary(
                _PLAIN,
                ("  cudaFuncSetAttribute(", "  if (n > 4096) {\n    cudaFuncSetAttribute("),
                ("  twice<<<", "  other(x, out, n);\n  } else {\n    twice<<<"),
                ("(x, out, n);\n}", "(x, out, n);\n  }\n}"),
            ),
            why="it is called for the other side of a branch",
        ),
        NearMiss(
            _PLAIN
            + """
void both(const float* x, float* out, int n, int bytes, cudaStream_t stream) {
  run(x, out, n, bytes, stream);
  if (cudaPeekAtLastError() != cudaSuccess) throw 1;
}
""",
            why="the function that calls the launcher asks for it",
        ),
        NearMiss(
            vary(_PLAIN, ("  cudaFuncSetAttribute(", "  if (cudaFuncSetAttribute("), ("Size, bytes);", "Size, bytes)) throw 1;")),
            why="the result is compared",
        ),
    )  # fmt: skip

    seen = (Seen("sglang", "sglang/kernels/jit/csrc/lplb/lp_prep.cuh", "lp_prep_kernel", 166),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        names = dict.fromkeys(one.name for one in subject.host.habits.dropped)
        if names:
            told = ", ".join(f"`{name}`" for name in names)
            yield self.finding(
                subject,
                f"the result of {told} is dropped: where it fails, what follows goes on with what was "
                "there before, and nothing tells which call it was",
                "take the result and hand an error on",
                [one.lines for one in subject.host.habits.dropped],
                Severity.NOTE,
            )
