# ruff: noqa: E501
"""The host asks the runtime the same before every launch."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.evidence import Finding, Severity

_PLAIN = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* out, int n) {
  extern __shared__ float rows[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { rows[threadIdx.x] = x[i]; out[i] = 2.0f * rows[threadIdx.x]; }
}

cudaError_t run(const float* x, float* out, int n, int bytes, cudaStream_t stream) {
  cudaError_t e = cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (e != cudaSuccess) return e;
  twice<<<(n + 255) / 256, 256, bytes, stream>>>(x, out, n);
  return cudaGetLastError();
}
"""
_BLOCKS = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    out[i] = 2.0f * x[i];
  }
}

template <typename K> int together(K kernel, int threads) {
  int blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0);
  return blocks;
}

void run(const float* x, float* out, int n, int sms, cudaStream_t stream) {
  const int blocks = together(twice, 256);
  twice<<<sms * blocks, 256, 0, stream>>>(x, out, n);
}
"""
_SET = "  cudaError_t e = cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);\n"
_BY_NAME = "  auto chosen = twice;\n" + _SET.replace("(twice,", "(chosen,")
_OTHER = "__global__ void other(float* x) { x[threadIdx.x] = 0.0f; }\n"


class AskedAtEachLaunch(Rule):
    """The function that launches the kernel sets its attributes or asks for its occupancy or for
    the properties of the device each time that it is called, on no condition, and keeps nothing of
    it."""

    name = "asked-at-each-launch"
    dialects = ("cuda",)
    matches = (
        Case(_PLAIN, "`cudaFuncSetAttribute`"),
        Case(_BLOCKS, "`together`"),
        Case(vary(_PLAIN, (_SET, _BY_NAME)), "`cudaFuncSetAttribute`"),
        Case(
            vary(
                _PLAIN,
                ("  cudaError_t e = cudaFunc", "  if (bytes > 4096) {\n  cudaError_t e = cudaFunc"),
                ("(x, out, n);\n", "(x, out, n);\n  }\n"),
            ),
            "`cudaFuncSetAttribute`",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_PLAIN, (_SET, f"  cudaError_t e = cudaSuccess;\n  if (bytes > 48 * 1024) {{\n  {_SET}  }}\n")),
            why="only for more than a kernel may have without it",
        ),
        NearMiss(
            vary(_PLAIN, ("cudaError_t run", f"{_OTHER}cudaError_t run"), (_SET, _BY_NAME.replace("twice", "other"))),
            why="the attribute of another kernel",
        ),
        NearMiss(
            vary(_BLOCKS, ("template <typename K>", f"{_OTHER}template <typename K>"), ("together(twice", "together(other")),
            why="the occupancy of another kernel",
        ),
        NearMiss(
            vary(_BLOCKS, ("const int blocks = together", "static const int blocks = together")),
            why="the answer is kept",
        ),
        NearMiss(
            vary(_BLOCKS, ("  int blocks = 0;\n", "  static int blocks = -1;\n  if (blocks >= 0) return blocks;\n"),
                 ("  cudaOcc", "  static bool once = false;\n  if (!once) cudaOcc")),
            why="the function that is called keeps it",
        ),
        NearMiss(
            vary(_PLAIN, (_SET, f"  static bool done = false;\n  cudaError_t e = cudaSuccess;\n  if (!done) {{\n  {_SET}    done = true;\n  }}\n")),
            why="done once",
        ),
        NearMiss(
            vary(_PLAIN, ("  cudaError_t e = cudaFuncSet", "  static cudaError_t e = cudaFuncSet")),
            why="done when the variable is made",
        ),
        NearMiss(
            vary(_BLOCKS, ("  cudaOcc", "  static std::map<int, int> known;\n  if (known.count(threads)) return known[threads];\n  cudaOcc"),
                 ("  return blocks;", "  return known[threads] = blocks;")),
            why="the function that is called knows what it has asked for",
        ),
        NearMiss(
            vary(_BLOCKS, ("  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0);",
                           "  once_per_device([&] { cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0); });")),
            why="another function is handed the question, and may ask it once",
        ),
        NearMiss(
            vary(_BLOCKS, ("void run", "int prepare() { return together(twice, 256); }\nvoid run"),
                 ("int n, int sms,", "int n, int sms, int blocks,"), ("  const int blocks = together(twice, 256);\n", "")),
            why="another function asks, and who launches is told",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        names = dict.fromkeys(one.name for one in subject.host.habits.repeated)
        if names:
            told = ", ".join(f"`{name}`" for name in names)
            yield self.finding(
                subject,
                f"{told} {'are' if len(names) > 1 else 'is'} called again before every launch, and the host spends the time each "
                "time: once for each kernel and device is enough",
                "do it once, for the most that is needed, and keep the answer",
                [one.lines for one in subject.host.habits.repeated],
                Severity.NOTE,
            )
