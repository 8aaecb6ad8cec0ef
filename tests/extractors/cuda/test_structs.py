"""Structs with bases, initialisers of constructors and structs inside; lambdas with templates."""

from __future__ import annotations

import pytest

from kb.ir import kernel_ops
from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound, understood

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
_SPECIALISED = """template <typename T, int M, int N> struct Adder : public Adder<T, 1, N> {
    using Base = Adder<T, 1, N>;
    T* all;
    template <typename P> __device__ Adder(P& p, int lane, void* shared)
        : Base(p, lane, shared), all(static_cast<T*>(p.all)) {}
    __device__ T across(T v) { all[this->lane] = v; return all[0]; }
};
template <typename T, int N> struct Adder<T, 1, N> {
    T* own;
    int lane;
    template <typename P> __device__ Adder(P& p, int lane, void* shared) : lane(lane) {
        own = static_cast<T*>(shared) + N;
    }
    template <bool B> __device__ T within(T v) {
        own[lane] = B ? v : T(0);
        __syncthreads();
        return own[31 - lane];
    }
};
struct Params { float* out; void* all; };
template <int M, int N> __global__ void k(Params params) {
    extern __shared__ char memory[];
    Adder<float, M, N> adder(params, threadIdx.x, memory);
    params.out[threadIdx.x] = adder.template within<true>(1.f);
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
_FIELDS = """struct Params { const float* x; float* out; int a, b, c, d, e, f, n; };
struct Pair { float low; int high; };
__device__ Pair two(float v) { Pair p; p.low = v; p.high = 3; return p; }
__global__ void k(const Params params) {
    const auto& [x, out, a, b, c, d, e, f, n] = params;
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    const auto [low, high] = two(x[at]);
    out[at] = low + high;
}
"""
_CONST = """struct Places {
    int from, by;
    __device__ float read(const float* x, int i) const { return x[from + i * by]; }
};
__global__ void k(const float* x, float* out, int n) {
    Places own{threadIdx.x, blockDim.x};
    float sum = 0.f;
    for (int i = 0; i < n; ++i) sum += own.read(x, i);
    out[threadIdx.x] = sum;
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


def test_names_in_brackets_are_the_fields_of_a_struct() -> None:
    kernel = understood(_FIELDS)
    (load,), (store,) = ops(kernel, OpKind.LOAD), ops(kernel, OpKind.STORE)
    assert load.results[0].type is not None
    assert load.results[0].type.dtype == "f32"
    assert store.operand("pointer")
    assert not ops(kernel, OpKind.UNPACK)


def test_a_const_method_carries_no_field_through_a_loop() -> None:
    (loop,) = ops(understood(_CONST), OpKind.FOR)
    assert len(loop.results) == 1
    (loop,) = ops(understood(_CONST.replace("const {", "{")), OpKind.FOR)
    assert len(loop.results) == 3


def test_the_address_of_a_store_is_what_stands_in_brackets() -> None:
    kernel = understood(_ASM)
    (store,) = ops(kernel, OpKind.STORE)
    moved = {op.result for op in ops(kernel, OpKind.ADD)}
    assert store.operand("pointer") in moved


_GENERAL = """template <typename T, int BLOCKS, int WARPS> struct Adder {
    __device__ T sum(T v) { return v; }
};
template <typename T, int WARPS> struct Adder<T, 1, WARPS> {
    template <int N> __device__ T sum(const T (&v)[N], T scale) {
        T all = 0;
        for (int i = 0; i < N; ++i) all += v[i] * scale;
        return all;
    }
};
template <typename T, int BLOCKS>
__global__ void k(const T* x, T* out) {
    Adder<T, BLOCKS, 4> adder;
    T held[8];
    for (int i = 0; i < 8; ++i) held[i] = x[i];
    out[0] = adder.sum(held, T(2));
}
"""
_NAMED_ALIKE = """template <typename T> struct Sum {
    __device__ T operator()(const T& a, const T& b) { return a + b; }
};
template <typename T> struct Twice {
    using Sum = Sum<T>;
    Sum sum;
    __device__ T of(T v) { return sum(v, v); }
};
template <int AT> struct Part { template <typename T> static __device__ T of(const T& v); };
template <> template <typename T> __device__ T Part<0>::of(const T& v) { return v; }
template <> template <typename T> __device__ T Part<1>::of(const T& v) { return v * v; }
__global__ void k(const float* x, float* out) {
    Twice<float> twice;
    auto sum = Sum<float>();
    out[0] = sum(twice.of(x[0]), Part<1>::of(x[1]));
}
"""
_DRAWN = """#include <curand_kernel.h>
__device__ float next(int* state) { *state += 1; return *state * 0.5f; }
__global__ void k(float* out, bool draw) {
    int state = 3;
    out[0] = draw ? next(&state) : 1.f;
    out[1] = state;
}
"""


def test_of_specialisations_the_most_general_that_takes_the_arguments() -> None:
    kernel = understood(_GENERAL)
    bounds = [op for op in ops(kernel, OpKind.RANGE) if op.operand("high")]
    assert len(bounds) == 2
    assert not ops(kernel, OpKind.OPAQUE)


def test_an_alias_named_like_its_struct_and_methods_written_outside() -> None:
    kernel = understood(_NAMED_ALIKE)
    assert len(ops(kernel, OpKind.ADD)) >= 2
    assert len(ops(kernel, OpKind.MUL)) == 1


def test_a_choice_one_side_of_which_writes() -> None:
    kernel = understood(_DRAWN)
    (branch,) = ops(kernel, OpKind.IF)
    assert len(branch.results) == 2


_SEEDED = """struct Params { const float* x; float* out; int rows; PhiloxState random; };
__global__ void k(Params params, bool draw) {
    unsigned long long seed = 0;
    if (draw) seed = std::get<0>(at::cuda::philox::unpack(params.random));
    for (int row = blockIdx.x; row < params.rows; row += gridDim.x)
        params.out[row] = params.x[row] + seed;
}
"""


def test_what_a_function_takes_by_value_it_does_not_write() -> None:
    kernel = sound(_SEEDED)
    assert all("params" not in [r.name for r in op.results] for op in ops(kernel, OpKind.IF))
    (row,) = [op for op in ops(kernel, OpKind.ATTRIBUTE) if op.attribute("name") == "rows"]
    assert row.inputs == ("params",)


_UNNAMED = """typedef struct { float scale; signed char few[32]; } Group;
__global__ void k(const float* x, void* out) {
    Group* to = (Group*)out;
    to[threadIdx.x / 32].few[threadIdx.x % 32] = x[threadIdx.x];
}
"""


def test_a_struct_that_has_its_name_from_a_typedef() -> None:
    kernel = understood(_UNNAMED)
    assert len(ops(kernel, OpKind.STORE)) == 1


@pytest.mark.parametrize(
    ("source", "where"),
    [
        pytest.param(_SPECIALISED, ["shared", "shared", None], id="the one with the method"),
        pytest.param(
            _SPECIALISED.replace("adder.template within<true>(1.f)", "adder.across(1.f)"),
            [None, None, None],
            id="the general one, which begins its base by a name",
        ),
    ],
)
def test_a_constructor_of_one_of_several_definitions_is_read(
    source: str, where: list[str | None]
) -> None:
    kernel = understood(source)
    accesses = [o for o in kernel_ops(kernel) if o.kind in (OpKind.LOAD, OpKind.STORE)]
    assert [op.attribute("space") for op in accesses] == where
    assert not ops(kernel, OpKind.UNDEF)


_ASKED = """template <typename I> struct pages {
    I* first;
    int size;
    __device__ int place(int row) const { return first[row / size] * size + row % size; }
};
struct other { int* first; };
template <typename P> __global__ void k(P params) {
    const auto& table = params.table;
    params.scale = params.scale * 2.f;
    int row = table.place(blockIdx.x) + table.first[0];
    params.out[row] = params.scale;
}
"""


def test_a_field_of_an_open_struct_is_the_struct_that_has_what_is_asked_of_it() -> None:
    kernel = sound(_ASKED)
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.LOAD)) == 2
    several = _ASKED.replace(
        "struct other {", "struct other { __device__ int place(int r) { return r; }"
    )
    assert [op.attribute("what") for op in ops(sound(several), OpKind.OPAQUE)] == [".place"]


def test_a_field_beside_one_that_was_set_is_the_one_that_was_given() -> None:
    kernel = sound(_ASKED)
    made = {op.result: op.kind for op in kernel_ops(kernel) if op.results}
    read = [op for op in ops(kernel, OpKind.ATTRIBUTE) if op.attribute("name") == "out"]
    assert [made.get(op.inputs[0]) for op in read] == [None]


_DESIGNATED = """struct Bin { int bin; float above; int count; };
__global__ void set(const int* x, float* out) {
    Bin b{.bin = x[threadIdx.x], .count = 3};
    out[threadIdx.x] = b.bin * b.count;
}
"""


def test_fields_are_set_by_their_names() -> None:
    kernel = sound(_DESIGNATED)
    assert not ops(kernel, OpKind.OPAQUE)
    (product,) = ops(kernel, OpKind.MUL)
    (load,) = ops(kernel, OpKind.LOAD)
    (count,) = [op for op in ops(kernel, OpKind.CONST) if op.attribute("value") == 3]
    assert product.inputs == (load.result, count.result)


def test_a_name_that_is_no_field_stays_unread() -> None:
    assert ops(sound(_DESIGNATED.replace(".count = 3", ".other = 3")), OpKind.OPAQUE)


def test_names_of_the_fields_of_a_struct_and_of_the_elements_of_a_vector() -> None:
    text = """struct Rows { const float2* from; float* to; int n; };
__global__ void k(const Rows rows) {
    const auto& [x, y, count] = rows;
    if (threadIdx.x >= count) return;
    const auto [re, im] = x[threadIdx.x];
    y[threadIdx.x] = re * im;
}
"""
    kernel = understood(text)
    read = [op.attribute("name") for op in ops(kernel, OpKind.ATTRIBUTE)]
    assert set(read) == {"from", "to", "n"}
    product = next(op for op in ops(kernel, OpKind.MUL) if "f32" in str(op.results[0].type))
    assert str(product.results[0].type) == "scalar<f32>"


def test_a_base_that_no_file_has() -> None:
    """What its constructor would set is not known, and the rest is read."""
    kernel = sound(_SPECIALISED.replace("Base = Adder<T, 1, N>", "Base = Elsewhere<T, N>"))
    assert ops(kernel, OpKind.STORE)
