"""Structs written for single types only, and vectors that inline PTX moves."""

from __future__ import annotations

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound

_MOVES = """#include <cuda_fp16.h>
__device__ int2 fetch(const int2* from) {
    int2 v;
    asm volatile("ld.global.cs.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
    return v;
}
__device__ void put(int2* to, int2 v) {
    asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(v.x), "r"(v.y));
}
template <typename T> struct Traits;
template <> struct Traits<half> {
    using Vec = int2;
    static __device__ Vec get(const Vec* from) { return fetch(from); }
};
template <> struct Traits<float> {
    using Vec = int2;
    static __device__ Vec get(const Vec* from) { return fetch(from); }
};
template <typename T>
__global__ void copy(const T* x, T* out) {
    using Vec = typename Traits<T>::Vec;
    const Vec* from = reinterpret_cast<const Vec*>(x) + threadIdx.x;
    put(reinterpret_cast<int2*>(out) + threadIdx.x, Traits<T>::get(from));
}
"""


def test_a_struct_for_single_types_is_read_where_all_of_them_look_alike() -> None:
    kernel = sound(_MOVES)
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.LOAD)) == 1


def test_it_stays_unread_where_one_of_them_does_something_else() -> None:
    text = _MOVES.replace("return fetch(from); }\n};\ntemplate <typename T>\n__global__",
                          "return from[1]; }\n};\ntemplate <typename T>\n__global__")  # fmt: skip
    assert text != _MOVES
    assert [op.attribute("what") for op in ops(sound(text), OpKind.OPAQUE)]


def test_registers_that_one_instruction_moves_are_one_vector() -> None:
    kernel = sound(_MOVES)
    (load,), (store,) = ops(kernel, OpKind.LOAD), ops(kernel, OpKind.STORE)
    assert load.results[0].type is not None
    assert load.results[0].type.shape == ("2",)
    assert load.attribute("cache") == store.attribute("cache") == "cs"
    assert store.operand("value") == load.result
    text = _MOVES.replace('"r"(v.x), "r"(v.y));', '"r"(v.y), "r"(v.x));')
    (store,) = ops(sound(text), OpKind.STORE)
    assert store.operand("value") in {op.result for op in ops(sound(text), OpKind.VECTOR)}


def test_registers_that_do_not_fit_the_vector_stay_as_they_are() -> None:
    kernel = sound(_MOVES.replace("st.global.cs.v2.b32 [%0], {%1, %2}", "st.global.b32 [%0], %1"))
    (store,) = ops(kernel, OpKind.STORE)
    assert store.operand("value") not in {op.result for op in ops(kernel, OpKind.VECTOR)}


def test_one_number_in_both_halves_is_a_pair() -> None:
    kernel = sound(
        "__global__ void scaled(const half2* x, const half* s, half2* y) {\n"
        "    y[threadIdx.x] = __hmul2(x[threadIdx.x], __half2half2(s[0]));\n"
        "}\n"
    )
    (both,) = ops(kernel, OpKind.CAST)
    assert not ops(kernel, OpKind.OPAQUE)
    assert "[2]" in str(both.results[0].type)


_NUMBERED = """template <int Model> struct Widths;
template <> struct Widths<0> { static constexpr int ROW = 512; static constexpr int HEADS = 8; };
template <> struct Widths<1> { static constexpr int ROW = 576; };
template <int Model> struct Warps;
template <> struct Warps<0> { static constexpr int ROW = 4; };
template <> struct Warps<1> { static constexpr int ROW = 8; };
template <int N> __device__ float moved(const float* x, int i) { return x[i * N]; }
template <int Model>
__global__ void copy(const float* x, float* out) {
    using W = Widths<Model>;
    out[threadIdx.x * W::ROW] = moved<Warps<Model>::ROW>(x, threadIdx.x);
}
"""


def test_a_constant_that_an_open_number_chooses_is_one_of_that_number_and_struct() -> None:
    kernel = sound(_NUMBERED)
    assert not ops(kernel, OpKind.OPAQUE)
    named = [op.attribute("name") for op in ops(kernel, OpKind.ATTRIBUTE)]
    assert sorted(named) == ["Warps.ROW", "Widths.ROW"]


def test_a_constant_that_not_every_number_has_stays_unread() -> None:
    kernel = sound(_NUMBERED.replace("W::ROW]", "W::HEADS]"))
    assert [op.attribute("what") for op in ops(kernel, OpKind.OPAQUE)] == ["name W::HEADS"]


_DEFAULTS = """static constexpr int ROWS = 64;
template <int Model> struct Base { static constexpr int WIDTH = 4 * Model; };
template <int Model, int Rows = ROWS, typename B = Base<Model>>
struct Tile {
    static constexpr int WIDTH = Rows * 2;
    float* base;
    __device__ static Tile made(float* base) { return Tile{base}; }
    __device__ float* row(int i) { return base + i * Tile<Model>::WIDTH + B::WIDTH; }
};
__global__ void copy(const float* x, float* out) {
    auto tile = Tile<3>::made(out);
    *tile.row(threadIdx.x) = x[threadIdx.x];
}
"""


def test_template_arguments_that_are_not_given_are_the_defaults() -> None:
    kernel = sound(_DEFAULTS)
    assert not ops(kernel, OpKind.OPAQUE)
    numbers = {op.attribute("value") for op in ops(kernel, OpKind.CONST)}
    assert {128, 12} <= numbers


def test_without_a_default_the_argument_stays_unknown() -> None:
    kernel = sound(_DEFAULTS.replace("int Rows = ROWS, typename B = Base<Model>", "int Rows"))
    assert ops(kernel, OpKind.OPAQUE)


def test_constants_are_made_below_many_calls_too_and_not_of_themselves() -> None:
    calls = "".join(
        f"__device__ float f{i}(float* x) {{ return f{i - 1}(x) * 2.0f + 1.0f; }}\n"
        for i in range(1, 16)
    )
    text = (
        "constexpr int ROWS = 4;\nconstexpr int WIDTH = ROWS * 32;\n"
        "constexpr int ITSELF = ITSELF + 1;\n"
        "__device__ float f0(float* x) { return x[WIDTH] + x[ITSELF]; }\n"
        + calls + "__global__ void k(float* x, float* y) { y[0] = f15(x); }\n"
    )  # fmt: skip
    kernel = sound(text)
    assert 128 in {op.attribute("value") for op in ops(kernel, OpKind.CONST)}
    assert [op.attribute("what") for op in ops(kernel, OpKind.OPAQUE)] == ["name ITSELF"]
