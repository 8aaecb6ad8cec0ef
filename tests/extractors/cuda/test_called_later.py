"""What is called later: lambdas that are forwarded, or held by a struct that is called in their
place; and pointers that may be null."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ir import Op
from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound, understood

_EACH = """template <typename F> struct Each {
    F one;
    __device__ void operator()(float* to, const float* from) const {
        for (int i = 0; i < 4; ++i) one(to[i], from[i]);
    }
};
template <typename V, typename F>
__device__ void walk(const float* x, float* out, int n, V&& four, F&& one) {
    if (n % 4 == 0) four(out, x); else one(out[n], x[n]);
}
template <typename F> __device__ void walk(const float* x, float* out, int n, F&& one) {
    using Four = Each<std::decay_t<F>>;
    walk(x, out, n, Four{one}, std::forward<F>(one));
}
__global__ void k(const float* x, float* out, float rate, int n) {
    walk(x, out, n, [=] __device__(float & to, const float& from) { to = from * rate; });
}
"""
_MAYBE = """template <int N> __device__ char* place(float* out, int at) {
    if (threadIdx.x % N != 0) return nullptr;
    return reinterpret_cast<char*>(out) + at;
}
__device__ void put(float* to, float v) { if (to != nullptr) to[0] = v; }
__global__ void k(float* out) {
    char* p = place<2>(out, 3);
    if (p) *p = 1;
    put(nullptr, 2.f);
    put(out, 3.f);
}
"""


def test_a_lambda_is_read_where_a_struct_or_another_function_calls_it() -> None:
    assert len(ops(understood(_EACH), OpKind.MUL)) == 2


def test_a_struct_that_holds_more_than_what_is_called_stays() -> None:
    more = _EACH.replace("    F one;\n", "    F one;\n    int n;\n").replace("{one}", "{one, n}")
    assert ops(sound(more), OpKind.OPAQUE)


def test_a_pointer_or_none() -> None:
    kernel = understood(_MAYBE)
    assert len(ops(kernel, OpKind.STORE)) == 2


@pytest.mark.parametrize("value", ["float{x[0]}", "float(x[0])", "static_cast<float>(x[0])"])
def test_a_number_in_braces_is_a_cast(value: str) -> None:
    text = f"template <typename T> __global__ void k(const T* x, float* y) {{ y[0] = {value}; }}\n"
    (cast,) = ops(understood(text), OpKind.CAST)
    assert cast.results[0].type is not None


_TRAIT = """template <typename T> struct Trait {};
template <> struct Trait<float> {
    using Own = float;
    template <typename S> __device__ static Own from(const S& v) { return static_cast<Own>(v); }
    __device__ static Own size(const Own& v) { return fabsf(v); }
};
template <> struct Trait<__half> {
    using Own = __half;
    template <typename S> __device__ static Own from(const S& v) { return static_cast<Own>(v); }
    __device__ static Own from(const float& v) { return __float2half_rn(v); }
    __device__ static Own size(const Own& v) { return __habs(v); }
};
template <> struct Trait<float2> {
    template <typename S> __device__ static float2 from(const S& v) { return (float2)(v); }
};
template <typename T> __global__ void k(const float* x, T* y) {
    y[0] = Trait<T>::from(x[0]);
    y[1] = Trait<T>::size(y[2]);
}
"""


def test_a_trait_that_converts_to_whatever_type_it_is_of() -> None:
    kernel = understood(_TRAIT)
    assert len(ops(kernel, OpKind.CAST)) == len(ops(kernel, OpKind.ABS)) == 1


def test_a_trait_that_also_computes_converts_nothing() -> None:
    more = _TRAIT.replace("return __float2half_rn(v);", "return __float2half_rn(v * 2.f);")
    assert ops(sound(more), OpKind.OPAQUE)


def test_the_address_of_a_number_that_is_never_written() -> None:
    text = """__global__ void k(const unsigned* x, float* y) {
    const unsigned held = x[threadIdx.x];
    y[threadIdx.x] = *reinterpret_cast<const float*>(&held);
}
"""
    assert len(ops(understood(text), OpKind.BITCAST)) == 1


_SPACES = """namespace a {
__device__ float step(float v) { return v + 1.f; }
namespace wide { __device__ float step(float v) { return v * 2.f; } }
__global__ void k(const float* x, float* y) { y[0] = CALL(x[0]); }
}
"""


@pytest.mark.parametrize(
    ("call", "kind"),
    [("step", OpKind.ADD), ("a::step", OpKind.ADD), ("wide::step", OpKind.MUL),
     ("a::wide::step", OpKind.MUL)],
)  # fmt: skip
def test_a_function_of_a_namespace(call: str, kind: OpKind) -> None:
    kernel = understood(_SPACES.replace("CALL", call))
    both = [op for op in (OpKind.ADD, OpKind.MUL) if any(_of(one) for one in ops(kernel, op))]
    assert both == [kind]


def _of(op: Op) -> bool:
    """An operation on floats, no address."""
    return "f32" in str(op.results[0].type) and "pointer" not in str(op.results[0].type)


_FIRST = """#pragma once
namespace dev::shared {
__device__ float most(float* place, float v) { atomicMax((int*)place, int(v)); return v; }
}
"""
_SECOND = """#pragma once
namespace dev::plain {
__device__ float most(float a, float b) { return fmaxf(a, b); }
}
"""
_TWO_HEADERS = """#include "first.h"
#include "second.h"
namespace user {
using namespace dev;
__global__ void k(const float* x, float* y) { y[0] = plain::most(x[0], x[1]); }
}
"""


def test_a_function_of_a_namespace_that_a_later_header_has() -> None:
    headers = {"first.h": ("first.h", _FIRST), "second.h": ("second.h", _SECOND)}
    found = read_cuda(_TWO_HEADERS, "k.cu", lambda _, name: headers.get(name))
    (kernel,) = found.kernels
    assert ops(kernel, OpKind.MAXIMUM)
    assert not ops(kernel, OpKind.ATOMIC_MAX)
