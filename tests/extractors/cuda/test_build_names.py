"""Names that nothing declares, where only what the build defines may stand."""

from __future__ import annotations

from kb.ir import ParameterKind
from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound

_STATE = """__global__ void scan(const float* x, float* out, int n) {
    __shared__ float row[SIZE];
    row[threadIdx.x] = x[blockIdx.x * SIZE + threadIdx.x];
    __syncthreads();
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < SIZE; ++i) { sum += row[i]; }
    out[blockIdx.x * SIZE + threadIdx.x] = sum + n;
}
"""


def test_an_extent_that_nothing_declares_is_a_compile_time_number() -> None:
    kernel = sound(_STATE)
    assert not ops(kernel, OpKind.OPAQUE)
    given = [p.name for p in kernel.entry.parameters if p.kind is ParameterKind.CONSTEXPR]
    assert given == ["SIZE"]


def test_a_name_that_no_extent_needs_stays_unknown() -> None:
    kernel = sound(_STATE.replace("row[SIZE]", "row[32]"))
    assert [p.name for p in kernel.entry.parameters] == ["x", "out", "n"]
    assert ops(kernel, OpKind.OPAQUE)


def test_what_the_file_declares_is_no_name_of_the_build() -> None:
    kernel = sound("constexpr int SIZE = 64;\n" + _STATE)
    assert [p.name for p in kernel.entry.parameters] == ["x", "out", "n"]
