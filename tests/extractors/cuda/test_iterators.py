"""Template parameters that stand for iterators."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ir import kernel_ops
from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, understood

_KERNEL = """template <typename T, typename It>
__device__ void copy(It to, It from, int n) {
    It row = from + 2 * n;
    for (int at = threadIdx.x; at < n; at += blockDim.x) to[at] = row[at];
}
template <typename T, typename It>
__global__ void k(It to, It from, int n) { BODY }
"""


@pytest.mark.parametrize(
    "body",
    [
        "to[threadIdx.x] = from[threadIdx.x];",
        "It row = from + n; *(to + threadIdx.x) = row[threadIdx.x];",
        "copy<T>(to, from, n);",
        "copy<T>(to + n, from + n, n);",
    ],
)
def test_what_is_indexed_under_an_open_type_is_an_array(body: str) -> None:
    kernel = understood(_KERNEL.replace("BODY", body))
    assert len(ops(kernel, OpKind.LOAD)) == 1
    assert len(ops(kernel, OpKind.STORE)) == 1


@pytest.mark.parametrize("body", ["to[0] = from[0];", "to = from;"])
def test_elements_by_number_may_be_those_of_a_vector(body: str) -> None:
    (kernel,) = read_cuda(_KERNEL.replace("BODY", body), "k.cu").kernels
    assert OpKind.LOAD not in {op.kind for op in kernel_ops(kernel)}
