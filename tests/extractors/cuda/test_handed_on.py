"""Arrays that the host of a CUDA file hands to one kernel after the other."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from extractors.host.passes import LEFT, TAKEN

_KERNELS = """__global__ void first(const float* x, float* part) { part[threadIdx.x] = x[0]; }
__global__ void last(const float* part, float* out) { out[threadIdx.x] = part[0]; }
"""
_RUN = """void run(const float* x, float* part, float* out, bool some) {
  first<<<1, 32>>>(x, part);
  last<<<1, 32>>>(part, out);
}
"""
_APART = """void one(const float* x, float* held) { first<<<1, 32>>>(x, held); }
void two(const float* held, float* out) { last<<<1, 32>>>(held, out); }
void run(const float* x, float* part, float* out) {
  one(x, part);
  two(part, out);
}
"""
_EITHER = """void run(const float* x, float* part, float* out, bool some) {
  if (some) {
    first<<<1, 32>>>(x, part);
  } else {
    last<<<1, 32>>>(part, out);
  }
}
"""
_STRUCTS = """struct P { const float* x; float* part; float* out; };
__global__ void first(P p) { p.part[threadIdx.x] = p.x[0]; }
__global__ void last(P params) { params.out[threadIdx.x] = params.part[0]; }
void run(P all) {
  first<<<1, 32>>>(all);
  last<<<1, 32>>>(all);
}
"""
_TENSORS = """void run(Tensor x, Tensor part, Tensor out) {
  first<<<1, 32>>>(x.const_data_ptr<float>(), part.mutable_data_ptr<float>());
  last<<<1, 32>>>(part.const_data_ptr<float>(), (float*)out.data_ptr());
}
"""


def _told(text: str) -> dict[str, set[tuple[str, str | None]]]:
    found = host_facts(read_cuda(text, "k.cu"))
    return {
        name: {(d.value, d.subject) for d in one.decisions if d.axis == "kernel_boundaries"}
        for name, one in found.items()
    }


@pytest.mark.parametrize(
    "host", [_RUN, _APART, _TENSORS], ids=["one function", "through functions", "of a tensor"]
)
def test_an_array_is_handed_on(host: str) -> None:
    assert _told(_KERNELS + host) == {"first": {(LEFT, "part")}, "last": {(TAKEN, "part")}}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_KERNELS + _EITHER, id="one of two"),
        pytest.param(_KERNELS.replace("part[threadIdx.x] = x[0];", "") + _RUN, id="not written"),
        pytest.param(_KERNELS + _RUN.replace("last<<<1, 32>>>(part", "last<<<1, 32>>>(x"),
                     id="an input of both"),
    ],
)  # fmt: skip
def test_nothing_is_handed_on(text: str) -> None:
    assert _told(text) == {"first": set(), "last": set()}


def test_a_field_of_a_struct_is_handed_on() -> None:
    assert _told(_STRUCTS) == {"first": {(LEFT, "p.part")}, "last": {(TAKEN, "params.part")}}
    apart = _STRUCTS.replace("params.part[0]", "params.x[0]")
    assert _told(apart) == {"first": set(), "last": set()}


def test_lines_of_the_calls_between() -> None:
    last = host_facts(read_cuda(_KERNELS + _APART, "k.cu"))["last"]
    (told,) = (d for d in last.decisions if d.axis == "kernel_boundaries")
    assert {(6, 6), (7, 7)} <= {*told.lines}
