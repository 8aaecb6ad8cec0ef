# ruff: noqa: E501
"""Nothing asks whether a launch of the kernel began."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding, Severity

_PLAIN = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = 2.0f * x[i]; }
}

void run(const float* x, float* out, int n, cudaStream_t stream) {
  twice<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);
}
"""
_EXTENDED = vary(
    _PLAIN,
    ("void run", "cudaError_t run"),
    ("  twice<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);\n",
     "  cudaLaunchConfig_t config;\n  config.gridDim = (n + 255) / 256;\n"
     "  config.blockDim = 256;\n  config.stream = stream;\n"
     "  cudaLaunchKernelEx(&config, twice, x, out, n);\n  return cudaSuccess;\n"),
)  # fmt: skip
_KEPT = "struct Kept {\n  int n;\n  Kept(int m) : n(m) {}\n  void keep() { ++n; }\n};\n"


class LaunchNotChecked(Rule):
    """A launch that fails, for its extents or for want of registers or shared memory, says so only
    to who asks. Neither the function of the launch nor one of the file that calls it does."""

    name = "launch-not-checked"
    dialects = ("cuda",)
    matches = (
        Case(_PLAIN, "no error"),
        Case(_EXTENDED, "no error"),
        Case(vary(_PLAIN, ("  twice", "  int checked_status = n;\n  twice")), "no error"),
        Case(
            vary(_PLAIN, ("  twice", "  AT_DISPATCH_FLOATING_TYPES(kind, \"run\", [&] {\n  twice"),
                 ("(x, out, n);\n", "(x, out, n);\n  });\n  TORCH_CHECK(n > 0, \"none\");\n")),
            "no error",
        ),
        Case(
            vary(_PLAIN, ("(x, out, n);\n", "(x, out, n);\n  other(at::cuda::getCurrentCUDAStream());\n"),
                 ("void run", "static void other(cudaStream_t s) {}\nvoid run")),
            "no error",
        ),
        Case(
            vary(_PLAIN, ("void run", "static void check(int n) {}\nvoid run"),
                 ("(x, out, n);\n", "(x, out, n);\n  check(n);\n")),
            "no error",
        ),
        Case(vary(_PLAIN, ("void run", f"{_KEPT}void run"), ("(x, out, n);\n", "(x, out, n);\n  Kept(n).keep();\n")),
             "no error"),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_PLAIN, ("void run", f"{_KEPT.replace('++n', 'cudaDeviceSynchronize()')}void run"),
                 ("(x, out, n);\n", "(x, out, n);\n  Kept(n).keep();\n")),
            why="a method of the file asks for it",
        ),
        NearMiss(
            vary(_PLAIN, ("void run", f"{_KEPT.replace(': n(m) {}', ': n(m) { cudaDeviceSynchronize(); }')}void run"),
                 ("(x, out, n);\n", "(x, out, n);\n  Kept(n);\n")),
            why="what is made asks for it",
        ),
        NearMiss(
            vary(_PLAIN, ("(x, out, n);\n", "(x, out, n);\n  if (cudaGetLastError() != cudaSuccess) throw 1;\n")),
            why="the function asks for the error",
        ),
        NearMiss(
            vary(_PLAIN, ("(x, out, n);\n", "(x, out, n);\n  C10_CUDA_KERNEL_LAUNCH_CHECK();\n")),
            why="a macro of a library asks for it",
        ),
        NearMiss(
            vary(_PLAIN, ("(x, out, n);\n", "(x, out, n);\n  TORCH_CHECK(cudaGetLastError() == cudaSuccess);\n")),
            why="what is checked is the error",
        ),
        NearMiss(
            vary(_PLAIN, ("(x, out, n);\n", "(x, out, n);\n  DONE();\n")),
            why="a macro that is not shown may ask for it",
        ),
        NearMiss(
            vary(_PLAIN, ("void run", "static void end() { if (cudaGetLastError()) throw 1; }\nvoid run"),
                 ("(x, out, n);\n", "(x, out, n);\n  end();\n")),
            why="a function of the file asks for it",
        ),
        NearMiss(
            _PLAIN + """
void both(const float* x, float* out, int n, cudaStream_t stream) {
  run(x, out, n, stream);
  if (cudaPeekAtLastError() != cudaSuccess) throw 1;
}
""",
            why="the function that calls the launcher asks for it",
        ),
        NearMiss(
            vary(_EXTENDED, ("  cudaLaunchKernelEx(", "  cudaError_t e = cudaLaunchKernelEx("),
                 ("return cudaSuccess;", "return e;")),
            why="the result of the launch is handed on",
        ),
        NearMiss(
            vary(_PLAIN, ("void run(", "struct Runner {\nvoid run("), ("(x, out, n);\n}", "(x, out, n);\n}\n};")),
            why="a method: who calls it is not known",
        ),
        NearMiss(_PLAIN.partition("void run")[0], why="its launch was not read"),
    )  # fmt: skip
    seen = (
        Seen("flash-attn", "csrc/layer_norm/ln_fwd_kernels.cuh", "ln_fwd_kernel", 261),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        lines = [one for row in subject.host.unasked for one in row]
        if lines:
            yield self.finding(
                subject,
                "the code of this file asks for no error after the launch: one that fails, for its "
                "extents or its registers, leaves the results unwritten and says nothing",
                "ask for cudaGetLastError(), or for the result of the launch, and hand it on",
                lines,
                Severity.NOTE,
            )
