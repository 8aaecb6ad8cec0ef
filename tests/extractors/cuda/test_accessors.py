"""Tensors that a kernel is handed with their extents and strides."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.extract import extract_file
from extractors.cuda.read import read_cuda
from kb.ir import kernel_ops
from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, understood

_KERNEL = """#define READ KIND<float, 2TRAITS>
__global__ void k(const READ x, KIND<float, 2TRAITS> y) {
    const int row = blockIdx.x;
    for (int c = threadIdx.x; c < x.size(1); c += blockDim.x) BODY
}
"""
_TRAITS = ", torch::RestrictPtrTraits"


def written(kind: str, traits: str, body: str) -> str:
    return _KERNEL.replace("KIND", kind).replace("TRAITS", traits).replace("BODY", body)


@pytest.mark.parametrize(
    ("kind", "traits", "index"),
    [
        ("torch::PackedTensorAccessor32", _TRAITS, "i32"),
        ("PackedTensorAccessor32", "", "i32"),
        ("at::PackedTensorAccessor64", _TRAITS, "i64"),
        ("torch::PackedTensorAccessor", f"{_TRAITS}, size_t", "u64"),
    ],
)
def test_an_element_is_one_of_the_data_by_the_strides(kind: str, traits: str, index: str) -> None:
    kernel = understood(written(kind, traits, "y[row][c] = 2.f * x[row][c];"))
    (load,), (store,) = ops(kernel, OpKind.LOAD), ops(kernel, OpKind.STORE)
    assert [one.type.dtype for one in load.results if one.type] == ["f32"]
    strides = [op for op in ops(kernel, OpKind.EXTRACT) if op.results[0].type]
    assert {op.results[0].type.dtype for op in strides if op.results[0].type} == {index}
    assert len(strides) == 5
    assert store.inputs


def test_a_row_of_one_stays_as_it_is() -> None:
    text = written("torch::PackedTensorAccessor32", _TRAITS, "y[row][c] = sum(x[row]);")
    (kernel,) = read_cuda(text, "k.cu").kernels
    found = [op.kind for op in kernel_ops(kernel)]
    assert OpKind.LOAD not in found
    assert OpKind.STORE in found


@pytest.mark.parametrize(
    ("traits", "told"), [(_TRAITS, "__restrict__"), ("", "out of place")], ids=["restrict", "plain"]
)
def test_the_promise_that_nothing_else_leads_to_its_data(
    tmp_path: Path, traits: str, told: str
) -> None:
    path = tmp_path / "k.cu"
    path.write_text(written("torch::PackedTensorAccessor32", traits, "y[row][c] = x[row][c];"))
    (kernel,) = extract_file(path).kernels
    assert {d.value for d in kernel.decisions if d.axis == "aliasing"} == {told}
