# ruff: noqa: E501
"""A kernel counts on elements that follow each other, and nothing asks the tensor for it."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.assumptions import unit_strides
from kb.evidence import Finding, Severity

_PLAIN = """
#include <torch/extension.h>
__global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = 2.0f * x[i]; }
}

void run(torch::Tensor x, torch::Tensor out, cudaStream_t stream) {
  int n = x.numel();
  twice<<<(n + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
_BINDING = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }\n'


class LayoutNotAsked(Rule):
    """Neighbouring threads take neighbouring elements of an array that is the memory of a tensor.
    The function that Python calls with it, or that asks others for their layout, hands its address
    on and asks nothing of its strides."""

    name = "layout-not-asked"
    dialects = ("cuda",)
    matches = (
        Case(_PLAIN, "`x`, `out`"),
        Case(
            vary(_PLAIN, ("  int n", "  TORCH_CHECK(x.is_contiguous());\n  int n"), (_BINDING, "")),
            "`out`",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_PLAIN, ("  int n", "  TORCH_CHECK(x.is_contiguous() && out.is_contiguous());\n  int n")),
            why="the host asks both",
        ),
        NearMiss(
            vary(_PLAIN, ("  int n", "  x = x.contiguous();\n  out = out.contiguous();\n  int n")),
            why="the host makes them so",
        ),
        NearMiss(
            vary(_PLAIN, ("  int n", "  CHECK_INPUT(x);\n  CHECK_INPUT(out);\n  int n")),
            why="a macro that is not shown may ask",
        ),
        NearMiss(
            vary(_PLAIN, ("x.data_ptr<float>(), out.data_ptr<float>(), n", "x.data_ptr<float>(), out.data_ptr<float>(), n, x.stride(0), out.stride(0)"),
                 ("float* out, int n)", "float* out, int n, int sx, int so)"), ("out[i] = 2.0f * x[i]", "out[i * so] = 2.0f * x[i * sx]")),
            why="the strides are handed over",
        ),
        NearMiss(
            vary(_PLAIN, (_BINDING, "")), why="another file may call the function, and ask before"
        ),
        NearMiss(
            vary(_PLAIN, ("torch::Tensor x, torch::Tensor out, cuda", "const float* x, float* out, int n, cuda"),
                 ("  int n = x.numel();\n", ""), ("x.data_ptr<float>(), out.data_ptr<float>()", "x, out")),
            why="addresses, whose caller is not known",
        ),
    )  # fmt: skip

    seen = (
        Seen("vllm", "csrc/layernorm_quant_kernels.cu", "rms_norm_static_fp8_quant_kernel", 65),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        dense = unit_strides(subject.facts)
        loose = [one for one in subject.host.habits.loose if one.name in dense]
        if loose:
            told = ", ".join(f"`{one.name}`" for one in loose)
            yield self.finding(
                subject,
                f"contiguity of {told} is not checked: neighbouring threads take neighbouring "
                "elements, and of a tensor that is a view of another they are not its own",
                "check is_contiguous(), call contiguous(), or pass the strides",
                [*dict.fromkeys(one.lines for one in loose), *(dense[one.name] for one in loose)],
                Severity.NOTE,
            )
