"""Pointers that the host hands over as null belong to operands that a kernel asks for."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.told_together import told_together

_KERNEL = """__global__ void k(const float* x, const float* bias, float* out) {
  float v = x[threadIdx.x];
  if (bias != nullptr) v += bias[threadIdx.x];
  out[threadIdx.x] = v;
}
"""
_CHOICE = """void run(const float* x, const float* bias, float* out, bool some) {
  k<<<1, 32>>>(x,
               some ? bias : nullptr,
               out);
}
"""
_NAMED = """void run(const float* x, optional<Tensor> bias, float* out) {
  const float* given = bias.has_value() ? bias->data_ptr<float>() : nullptr;
  k<<<1, 32>>>(x, given, out);
}
"""
_BARE = """void run(const float* x, float* out) {
  k<<<1, 32>>>(x,
               nullptr,
               out);
}
"""
_ALWAYS = "void run(const float* x, float* out) {\n  k<<<1, 32>>>(x, x, out);\n}\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (_KERNEL + _CHOICE, {3, 8}),
        (_KERNEL + _NAMED, {3, 7}),
        (_KERNEL + _BARE, {3, 8}),
        (_KERNEL + _ALWAYS, {3}),
        (_KERNEL.replace("if (bias != nullptr) ", "") + _CHOICE, set()),
    ],
)
def test_null_pointers(text: str, lines: set[int]) -> None:
    """The choice, or the literal; nothing where the kernel does not ask."""
    found = read_cuda(text, "k.cu")
    (kernel,), host = found.kernels, host_facts(found)["k"]
    told = [d for d in told_together(detect(kernel, host), host) if d.axis == "optional_inputs"]
    assert {first for d in told for first, _ in d.lines} == lines
