"""Which branches of `#if` are compiled."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ops import OpKind
from tests.extractors.cuda.samples import ops

_KERNEL = """__global__ void k(const float* x, float* out) {
#ifdef NAME
    out[0] = x[0] + 1.f;
#else
    out[0] = x[0] * 2.f;
#endif
}
"""


@pytest.mark.parametrize(
    ("name", "compiled"),
    [
        ("PACKAGE_WITH_HIP", OpKind.MUL),
        ("__HIP__GFX9__", OpKind.MUL),
        ("ROCM_FAST", OpKind.MUL),
        ("USE_MUSA", OpKind.MUL),
        ("SHIPPED", OpKind.ADD),
        ("WITH_CHIP", OpKind.ADD),
    ],
)
def test_other_makers_devices_are_not_compiled_for(name: str, compiled: OpKind) -> None:
    (kernel,) = read_cuda(_KERNEL.replace("NAME", name), "k.cu").kernels
    assert bool(ops(kernel, OpKind.MUL)) == (compiled is OpKind.MUL)
