# ruff: noqa: E501
"""A kernel on tensors is launched on the default stream, and not on the current one."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding, Severity

_PLAIN = """
#include <torch/extension.h>
__global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = 2.0f * x[i]; }
}

void run(torch::Tensor x, torch::Tensor out) {
  int n = x.numel();
  twice<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
}
"""


class DefaultStream(Rule):
    """Tensors of a framework are written on its current stream. A launch that names no stream goes
    to the default one: it waits for others that it need not wait for, or not for those it must."""

    name = "default-stream"
    dialects = ("cuda",)
    matches = (
        Case(_PLAIN, "default stream"),
        Case(vary(_PLAIN, (", 256>>>", ", 256, 0, 0>>>")), "default stream"),
        Case(vary(_PLAIN, ("torch/extension.h", "ATen/ATen.h"), (", 256>>>", ", 256, n * 4>>>")), "default stream"),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_PLAIN, (", 256>>>", ", 256, 0, at::cuda::getCurrentCUDAStream()>>>")),
            why="the current stream",
        ),
        NearMiss(
            vary(_PLAIN, ("torch::Tensor out)", "torch::Tensor out, cudaStream_t stream)"), (", 256>>>", ", 256, 0, stream>>>")),
            why="the stream of the caller",
        ),
        NearMiss(
            vary(_PLAIN, ("torch/extension.h", "cuda_runtime.h")),
            why="no framework is there that has a current stream",
        ),
    )  # fmt: skip

    seen = (
        Seen(
            "auto-gptq",
            "autogptq_extension/cuda_256/autogptq_cuda_kernel_256.cu",
            "VecQuant4MatMulKernel",
            505,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        lines = subject.host.habits.streamless
        if lines:
            yield self.finding(
                subject,
                "the launch names no stream and goes to the default stream, not to the current one "
                "of the framework: with another current stream the two are not in order",
                "launch on at::cuda::getCurrentCUDAStream()",
                lines,
                Severity.NOTE,
            )
