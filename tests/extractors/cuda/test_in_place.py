"""Helpers and structs read in place: loops that return, structs as their fields, moves of bytes."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ir import Kernel, kernel_ops
from kb.ir_parse import parse
from kb.ir_text import to_text

FIND = """__device__ int find(int row, const int* ends, int count) {
    for (int g = 0; g < count; ++g) {
        if (row < ends[g]) return g;
    }
    return count - 1;
}
__global__ void take(const float* x, float* out, const int* ends, int count) {
    int at = threadIdx.x;
    out[at] = x[find(at, ends, count)];
}
"""
STATE = """struct State {
    float top;
    float sum;
    __device__ State() { reset(); }
    __device__ void reset() { top = -INFINITY; sum = 0.f; }
    __device__ void add(float v) {
        float now = fmaxf(top, v);
        sum = sum * expf(top - now) + expf(v - now);
        top = now;
    }
};
__global__ void total(const float* x, float* out, int n) {
    State s;
    for (int i = 0; i < n; ++i) s.add(x[i]);
    out[0] = s.top + logf(s.sum);
}
"""
BITS = """__global__ void halves(const uint2* x, float* out) {
    uint2 raw = x[threadIdx.x];
    float two[2];
    memcpy(two, &raw, sizeof(raw));
    int none[4];
    memset(none, 0, sizeof(none));
    out[threadIdx.x] = two[0] + two[1] + none[0];
}
"""
PAIRS = """namespace ns { template <int N> struct tile {}; }
__global__ void k(float* out) {
    auto block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    float v = cg::reduce(warp, out[warp.thread_rank()], cg::plus<float>{});
    if (warp.meta_group_rank() < warp.meta_group_size()) out[0] = v;
}
"""


def kernel(text: str) -> Kernel:
    """The last kernel of a text."""
    return read_cuda(text, "k.cu").kernels[-1]


@pytest.mark.parametrize("text", [FIND, STATE, BITS, PAIRS])
def test_nothing_is_opaque_and_the_text_reads_back(text: str) -> None:
    found = kernel(text)
    assert [op.attribute("what") for op in kernel_ops(found) if op.kind == "opaque"] == []
    assert parse(to_text(found)) == found


def test_a_loop_that_returns_is_left_and_hands_its_value_over() -> None:
    ops = list(kernel_ops(kernel(FIND)))
    (left,) = [op for op in ops if op.kind == "break"]
    assert len(left.inputs) == 2
    assert left.span.line == 3
    assert left.span.call == 9


def test_fields_of_a_struct_are_carried_by_themselves() -> None:
    (loop,) = [op for op in kernel_ops(kernel(STATE)) if op.kind == "for"]
    assert [row.type.dtype for row in loop.results if row.type] == ["f32", "f32"]
    begun = {op.results[0].name: op for op in kernel_ops(kernel(STATE)) if op.results}
    assert [begun[value].kind for value in loop.inputs[1:]] == ["neg", "const"]


def test_bytes_copied_are_bits_seen_anew() -> None:
    kinds = [op.kind for op in kernel_ops(kernel(BITS))]
    assert kinds.count("bitcast") == 1
    assert kinds.count("zeros") == 1
