"""Structs that a kernel is handed by value, and what the host fills them with."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.host.facts import HostFacts
from extractors.host.passes import HANDED_ON
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


def test_fields_say_of_which_parameter_they_are() -> None:
    kernel = _kernel(_STRUCT + _KERNEL)
    assert [p.struct for p in kernel.entry.parameters] == ["", "p", "p", "p"]


def test_fields_of_structs_in_structs_are_parameters() -> None:
    kernel = _kernel("struct Inner { int n; };\n" + _STRUCT + _KERNEL.replace("p.n", "p.inner.n"))
    assert "p.inner.n" in kernel.entry.parameter_names
    assert not [op for op in kernel_ops(kernel) if op.kind == OpKind.ATTRIBUTE]


@pytest.mark.parametrize(
    "called",
    [
        "p.inner.of(i)",
        "len(p.inner.n)",
        "read(reinterpret_cast<char*>(p.out))",
        "pair(p.n, p.inner.n)",
    ],
)
def test_calls_that_set_no_field(called: str) -> None:
    """Methods that say so, values, pointers seen otherwise, and overloads that take less."""
    helpers = (
        "struct Inner { int n; __device__ int of(int i) const { return i + n; } };\n"
        "__device__ int len(int n) { return n; }\n"
        "__device__ int read(char* x) { return x[0]; }\n"
        "__device__ int pair(int& n) { return n; }\n"
        "__device__ int pair(int n, int m) { return n + m; }\n"
    )
    kernel = _kernel(helpers + _STRUCT + _KERNEL.replace("p.x[i]", f"{called} + p.x[i]"))
    assert not [op for op in kernel_ops(kernel) if op.kind == OpKind.WHILE]


def test_a_struct_of_one_field_that_is_handed_on() -> None:
    part = "struct P { float* x[8]; };\n__device__ void part(P p) { p.x[threadIdx.y][0] = 1.f; }\n"
    kernel = _kernel(part + "__global__ void k(P p) { part(p); }")
    assert [op.attribute("name") for op in kernel_ops(kernel) if op.kind == OpKind.ATTRIBUTE] == [
        "x"
    ]


def test_a_field_of_a_field_of_unknown_type_stays_one() -> None:
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


def test_one_tensor_for_two_fields() -> None:
    filled = "P given; given.x = x; given.out = (float4*)x; given.n = n;"
    text = _STRUCT + _KERNEL + f"void all(float* x, int n) {{ {filled} k<<<1, 32>>>(given); }}"
    found = [d for d in _facts(text).decisions if d.axis == "aliasing"]
    assert [(d.value[:8], d.subject) for d in found] == [("in place", "p.x, p.out")]


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
    rows = {name: [(d.value, d.subject) for d in f.decisions if d.pattern == HANDED_ON]
            for name, f in told.items()}  # fmt: skip
    assert rows == {
        "k": [("leaves its result to a later kernel", "p.out")],
        "last": [("takes what an earlier kernel made", "y")],
    }
