"""Structs that a kernel is handed by value, and what the host fills them with."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.host.facts import HostFacts
from kb.analysis.facts import Facts
from kb.ir import Kernel, ParameterKind, kernel_ops
from kb.ops import OpKind

_STRUCT = "struct P { const float* x; float4* out; int n; Inner inner; };\n"
_KERNEL = """__global__ void k(const P p) {
  for (int i = threadIdx.x; i < p.n; i += blockDim.x) p.out[i].x = p.x[i];
}
"""
_HOST = """void all(torch::Tensor a, torch::Tensor o, int n) {
  TORCH_CHECK(a.dtype() == torch::kFloat32);
  TORCH_CHECK(n % 4 == 0);
  FILLED
  k<<<1, 32>>>(given);
}
"""


def _kernel(text: str) -> Kernel:
    (kernel,) = read_cuda(text, "k.cu").kernels
    return Facts(kernel).kernel


def _facts(text: str) -> HostFacts:
    (found,) = host_facts(read_cuda(text, "k.cu")).values()
    return found


def test_fields_are_parameters() -> None:
    kernel = _kernel(_STRUCT + _KERNEL)
    assert [(p.name, p.kind, p.annotation) for p in kernel.entry.parameters] == [
        ("p", ParameterKind.SCALAR, "P"),
        ("p.n", ParameterKind.SCALAR, "i32"),
        ("p.out", ParameterKind.ARRAY, "f32x4"),
        ("p.x", ParameterKind.ARRAY, "f32 const"),
    ]
    assert not [op for op in kernel_ops(kernel) if op.kind == OpKind.ATTRIBUTE]


def test_a_field_of_a_field_stays_one() -> None:
    kernel = _kernel(_STRUCT + _KERNEL.replace("p.n", "p.inner.n"))
    assert "p.inner" not in kernel.entry.parameter_names
    assert [op.attribute("name") for op in kernel_ops(kernel) if op.kind == OpKind.ATTRIBUTE]


def test_what_is_written_behind_a_field_is_no_part_of_the_struct() -> None:
    code = "reinterpret_cast<float*>(p.out)[i] = p.x[i]"
    kernel = _kernel(_STRUCT + _KERNEL.replace("p.out[i].x = p.x[i]", code))
    assert "p.out" in kernel.entry.parameter_names
    assert not [op for op in kernel_ops(kernel) if op.kind == OpKind.WHILE]


@pytest.mark.parametrize(
    "filled",
    [
        "P given; given.x = a.data_ptr<float>(); given.n = n;",
        "P given{a.data_ptr<float>(), nullptr, n};",
        "P given = {a.data_ptr<float>(), nullptr, n};",
        "auto given = P{a.data_ptr<float>(), nullptr, n};",
    ],
)
def test_checks_of_what_a_struct_is_filled_with(filled: str) -> None:
    facts = _facts(_STRUCT + _KERNEL + _HOST.replace("FILLED", filled))
    found = {c.expression for c in facts.constraints}
    assert {"p.x.dtype == torch.float32", "p.n % 4 == 0"} <= found


def test_arrays_in_structs_that_one_kernel_leaves_to_the_next() -> None:
    text = (
        _STRUCT
        + _KERNEL
        + """__global__ void last(const float4* y, float* z) { z[threadIdx.x] = y[threadIdx.x].x; }
void all(float* x, float4* y, float* z, int n) {
  P given;
  given.x = x;
  given.out = y;
  given.n = n;
  k<<<1, 32>>>(given);
  last<<<1, 32>>>(y, z);
}
"""
    )
    told = host_facts(read_cuda(text, "k.cu"))
    axis = "kernel_boundaries"
    rows = {name: [(d.value, d.subject) for d in f.decisions if d.axis == axis]
            for name, f in told.items()}  # fmt: skip
    assert rows == {
        "k": [("leaves its result to a later kernel", "p.out")],
        "last": [("takes what an earlier kernel made", "y")],
    }
