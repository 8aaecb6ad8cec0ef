"""Methods of the struct that a type parameter stands for, and methods defined outside of theirs."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ir import Region
from kb.ops import OpKind

_WORK = "{ int i = blockIdx.x * 64 + threadIdx.x; if (i < p.n) p.x[i] = N * p.x[i]; }"
_KERNEL = "template <typename T> __global__ void k(const P p) { T::go(p); }\n"
_HOST = """template <int D> struct Host {
  template <int V> using Own = Work<V, D>;
  static void run(P p) { k<Own<4>><<<9, 64>>>(p); }
};
"""
_INSIDE = (
    f"template <int N, int M> struct Work {{ static __device__ void go(const P& p) {_WORK} }};\n"
)
_OUTSIDE = (
    "template <int N, int M> struct Work { static __device__ void go(const P& p); };\n"
    f"template <int N, int M> __device__ void Work<N, M>::go(const P& p) {_WORK}\n"
)
_HEAD = "struct P { float* x; int n; };\n"


def _kinds(text: str) -> set[OpKind]:
    """What the kernel of a file does."""
    (kernel,) = read_cuda(text, "k.cu").kernels
    found: set[OpKind] = set()

    def walk(region: Region) -> None:
        for one in region.ops:
            found.add(one.kind)
            for inner in one.regions:
                walk(inner)

    for function in kernel.functions:
        walk(function.body)
    return found


@pytest.mark.parametrize("work", [_INSIDE, _OUTSIDE], ids=["inside", "outside"])
def test_the_struct_that_the_host_gives_works(work: str) -> None:
    found = _kinds(_HEAD + work + _KERNEL + _HOST)
    assert OpKind.STORE in found
    assert OpKind.OPAQUE not in found


def test_one_of_two_structs_is_not_known() -> None:
    other = (
        _INSIDE.replace("struct Work", "struct Other")
        + "void run2(P p) { k<Other<4, 2>><<<9, 64>>>(p); }\n"
    )
    assert OpKind.OPAQUE in _kinds(_HEAD + _INSIDE + _KERNEL + _HOST + other)


def test_methods_of_a_specialisation_are_its_own() -> None:
    text = _OUTSIDE.replace(
        "template <int N, int M> __device__ void Work<N, M>",
        "template <> __device__ void Work<1, 2>",
    )
    assert OpKind.OPAQUE in _kinds(_HEAD + text + _KERNEL + _HOST)


def test_a_method_of_an_object_is_defined_outside() -> None:
    text = (
        "struct Work { float* x; int n; __device__ void go(int i); };\n"
        "__device__ void Work::go(int i) { if (i < n) x[i] = 2.f; }\n"
        "__global__ void k(float* x, int n) { Work w{x, n}; w.go(threadIdx.x); }\n"
    )
    found = _kinds(text)
    assert OpKind.STORE in found
    assert OpKind.OPAQUE not in found
