"""Strides that a kernel is handed, and the host's checks of how far elements lie apart."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.detect import detect
from extractors.host.samples import vary
from extractors.told_strides import ASKED
from extractors.told_together import told_together

_ROWS = """__global__ void twice(const float* x, float* y, int n, long down, long far) {
    for (int at = threadIdx.x; at < n; at += blockDim.x)
        y[blockIdx.x * far + at] = 2.f * x[blockIdx.x * down + at];
}
void run(torch::Tensor x, torch::Tensor y, int n, long down, long far) {
    TORCH_CHECK(x.stride(0) == 2 * y.stride(0));
    twice<<<y.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, down, far);
}
"""
_HANDED = "strides as arguments"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(_ROWS, {_HANDED: {1, 3, 6}}, id="strides are handed over"),
        pytest.param(
            vary(_ROWS, ("* far", "* n"), ("* down", "* n")), {ASKED: {3, 6}}, id="none is"
        ),
        pytest.param(
            vary(_ROWS, ("x.stride(0) == 2 * y.stride(0)", "n > 0")),
            {_HANDED: {1, 3}},
            id="nothing is demanded",
        ),
    ],
)
def test_strides_that_the_host_asks_for(text: str, told: dict[str, set[int]]) -> None:
    module = read_cuda(text, "k.cu")
    [facts] = host_facts(module).values()
    found = told_together(detect(module.kernels[0], facts), facts)
    rows = [d for d in found if d.value in (_HANDED, ASKED)]
    assert {d.value: {line for line, _ in d.lines} for d in rows} == told
