"""Structs with bases, initialisers of constructors and structs inside; lambdas with templates."""

from __future__ import annotations

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, understood

_BASES = """template <typename T> struct Sized {
    static constexpr int COUNT = 16 / sizeof(T);
    float sum;
};
template <typename T, int N> struct Adder : Sized<T> {
    float scale;
    __device__ Adder(float s) : scale(s) { this->sum = 0.f; }
    __device__ void add(float v) { this->sum += v * scale; }
};
template <typename T> struct Adder<T, 1> : public Adder<T, 2> {
    __device__ Adder(float s) : Adder<T, 2>(s) {}
};
__global__ void k(const float* x, float* out) {
    Adder<float, 4> a(2.f);
    for (int i = 0; i < Adder<float, 4>::COUNT; ++i) a.add(x[i]);
    out[0] = a.sum;
}
"""
_LAMBDA = """__global__ void k(const float* x, float* out, bool half) {
    auto run = [&]<bool HALF, typename T>(int i) {
        if constexpr (HALF) out[i] = x[i] * T(0.5f); else out[i] = x[i];
    };
    if (half) run.template operator()<true, float>(threadIdx.x);
    else run.operator()<false, float>(threadIdx.x);
}
"""
_INNER = """template <typename T> struct Whole {
    struct Part { T x[4]; int n; };
    Part first;
};
__global__ void k(const float* x, float* out) {
    __shared__ Whole<float> held;
    Whole<float>::Part& part = held.first;
    part.x[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = part.x[3 - threadIdx.x];
}
"""
_ASM = """__device__ void put(uint4* to, uint4 v) {
    asm volatile("st.global.v4.b32 [%4], {%0, %1, %2, %3};"
                 :: "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "l"(to));
}
__global__ void k(const uint4* x, uint4* out) { put(out + threadIdx.x, x[threadIdx.x]); }
"""


def test_members_of_a_base_and_what_a_constructor_sets_before_its_body() -> None:
    kernel = understood(_BASES)
    constants = {op.attribute("value") for op in ops(kernel, OpKind.CONST)}
    assert {2.0, 4} <= constants
    (loop,) = ops(kernel, OpKind.FOR)
    assert loop.results
    assert not ops(kernel, OpKind.UNDEF)


def test_a_lambda_is_read_with_its_template_arguments() -> None:
    kernel = understood(_LAMBDA)
    assert len(ops(kernel, OpKind.STORE)) == 2
    assert len(ops(kernel, OpKind.MUL)) == 1


def test_a_struct_inside_another_has_the_arguments_of_that() -> None:
    kernel = understood(_INNER)
    spaces = [op.attribute("space") for op in ops(kernel, OpKind.STORE)]
    assert spaces == ["shared", None]
    (load, again) = ops(kernel, OpKind.LOAD)
    assert load.results[0].type is not None
    assert again.results[0].type is not None
    assert again.results[0].type.dtype == "f32"


def test_the_address_of_a_store_is_what_stands_in_brackets() -> None:
    kernel = understood(_ASM)
    (store,) = ops(kernel, OpKind.STORE)
    moved = {op.result for op in ops(kernel, OpKind.ADD)}
    assert store.operand("pointer") in moved
