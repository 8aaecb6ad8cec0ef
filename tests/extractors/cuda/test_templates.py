"""Types and functions that templates make: aliases, choices, packs, specialisations."""

from __future__ import annotations

import pytest

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound

_BYTES = """
template <unsigned long N> struct Bytes {};
template <> struct Bytes<2> { using type = unsigned short; };
template <> struct Bytes<4> { using type = unsigned int; };
template <typename E> using word = typename Bytes<sizeof(E)>::type;
template <typename E, unsigned long N> struct Part { E data[N]; };
template <typename E, unsigned long N> struct Held {
  using part = word<E>;
  using Raw = Part<part, N>;
  __device__ void load(const void* p, long at = 0) { raw = reinterpret_cast<const Raw*>(p)[at]; }
  __device__ void store(void* p, long at = 0) const { reinterpret_cast<Raw*>(p)[at] = raw; }
  Raw raw;
};
"""


def test_words_as_wide_as_an_open_type_are_of_it() -> None:
    kernel = sound(
        f"{_BYTES}template <typename T> __global__ void k(const T* x, T* y) {{\n"
        "  Held<T, 4> v; v.load(x, threadIdx.x); v.store(y, threadIdx.x);\n}\n"
    )
    (load,) = ops(kernel, OpKind.LOAD)
    made = load.results[0].type
    assert made is not None
    assert (made.dtype, made.shape) == ("dtypeof(T)", ("4",))


@pytest.mark.parametrize(
    ("choice", "extent"),
    [
        pytest.param("std::conditional_t<true, Held<T, 4>, Held<T, 2>>", "4", id="held"),
        pytest.param("std::conditional_t<(3 > 4), Held<T, 4>, Held<T, 2>>", "2", id="not held"),
    ],
)
def test_types_that_a_condition_chooses(choice: str, extent: str) -> None:
    kernel = sound(
        f"{_BYTES}template <typename T> using Chosen = {choice};\n"
        "template <typename T> __global__ void k(const T* x, T* y) {\n"
        "  Chosen<T> v; v.load(x, threadIdx.x); v.store(y, threadIdx.x);\n}\n"
    )
    (load,) = ops(kernel, OpKind.LOAD)
    assert load.results[0].type is not None
    assert load.results[0].type.shape == (extent,)


@pytest.mark.parametrize(
    ("fold", "operations"),
    [
        pytest.param("(... + more)", 1, id="two"),
        pytest.param("(1 + ... + more)", 2, id="with a start"),
        pytest.param("(more + ...)", 1, id="dots behind"),
    ],
)
def test_folds_are_the_operators_that_they_stand_for(fold: str, operations: int) -> None:
    kernel = sound(
        f"template <typename... U> __device__ int all(int first, U... more) {{ return {fold}; }}\n"
        "__global__ void k(int* y, int a, int b) { *y = all(7, a, b); }\n"
    )
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.ADD)) == operations


def test_packs_are_handed_on() -> None:
    kernel = sound(
        "__device__ int sub(int a, int b) { return a - b; }\n"
        "template <typename... U> __device__ int on(U... all) { return sub(all...); }\n"
        "__global__ void k(int* y, int a, int b) { y[0] = on(a, b); }\n"
    )
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.SUB)) == 1


def test_an_enumerator_chooses_a_specialisation() -> None:
    kernel = sound(
        "enum class How { SUM, MAX };\n"
        "template <How H, typename T> struct Join {};\n"
        "template <typename T> struct Join<How::SUM, T> {\n"
        "  __device__ static T of(T a, T b) { return a + b; } };\n"
        "template <typename T> struct Join<How::MAX, T> {\n"
        "  __device__ static T of(T a, T b) { return max(a, b); } };\n"
        "template <How H, typename T> __device__ T joined(T a, T b) {\n"
        "  using One = Join<H, T>; return One::of(a, b); }\n"
        "__global__ void k(float* y, float a, float b) { y[0] = joined<How::MAX>(a, b); }\n"
    )
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.MAXIMUM)) == 1


def test_a_pragma_between_two_heads_belongs_to_the_inner_loop() -> None:
    kernel = sound(
        "__global__ void k(float* y) {\n  float a[8];\n"
        "#pragma unroll\n  for (int s = 4; s >= 1; s /= 2)\n"
        "#pragma unroll\n    for (int i = 0; i < s; ++i)\n      a[i] += a[i + s];\n"
        "  y[0] = a[0];\n}\n"
    )
    assert not ops(kernel, OpKind.OPAQUE)


def test_the_number_of_the_target_has_another_name() -> None:
    kernel = sound(
        "#if !defined(OURS)\n#error OURS is not defined\n#endif\n"
        'static_assert(__CUDA_ARCH__ == OURS, "differs");\n'
        "__global__ void k(float* y) { y[0] = OURS >= 1000 ? 32 : 16; }\n"
    )
    assert not ops(kernel, OpKind.OPAQUE)


_CONVERTERS = """
template <typename S> struct To { static constexpr bool known = false; };
template <> struct To<float> {
  using one = float; using two = float2;
  __device__ static float of(one x) { return x; }
  __device__ static float2 of(two x) { return x; }
};
template <> struct To<__half> {
  using one = __half; using two = __half2;
  __device__ static float of(one x) { return __half2float(x); }
  __device__ static float2 of(two x) { return __half22float2(x); }
  __device__ static one of(float x) { return __float2half_rn(x); }
};
template <> struct To<__nv_bfloat16> {
  using one = __nv_bfloat16; using two = __nv_bfloat162;
  __device__ static float of(one x) { return __bfloat162float(x); }
  __device__ static float2 of(two x) { return __bfloat1622float2(x); }
  __device__ static one of(float x) { return __float2bfloat16(x); }
};
"""


def test_conversions_of_an_open_type_are_those_of_every_type() -> None:
    kernel = sound(
        f"{_CONVERTERS}template <typename T> __global__ void k(const T* x, T* y) {{\n"
        "  using C = To<T>;\n  float v = C::of(x[0]);\n  y[0] = C::of(v + v);\n}\n"
    )
    assert not ops(kernel, OpKind.OPAQUE)
    made = [op.results[0].type for op in ops(kernel, OpKind.CAST)]
    assert [one.dtype for one in made if one is not None] == ["f32", "dtypeof(T)"]


def test_a_struct_that_does_more_converts_nothing() -> None:
    text = _CONVERTERS.replace("return __half2float(x)", "return 2.f * __half2float(x)")
    kernel = sound(
        f"{text}template <typename T> __global__ void k(const T* x, float* y) {{\n"
        "  using C = To<T>;\n  y[0] = C::of(x[0]);\n}\n"
    )
    assert not ops(kernel, OpKind.CAST)


def test_a_pointer_of_any_type_points_at_what_it_is_given() -> None:
    kernel = sound(
        "__global__ void k(const float* x, float4* y) {\n"
        "  auto* v = reinterpret_cast<const float4*>(x);\n  y[0] = v[1];\n}\n"
    )
    (load,) = ops(kernel, OpKind.LOAD)
    assert load.results[0].type is not None
    assert load.results[0].type.shape == ("4",)


def test_a_type_that_a_concept_constrains_is_a_type() -> None:
    kernel = sound(
        "template <typename T> struct Trait {};\n"
        "template <std::integral T> struct Trait<T> {\n  using self = T;\n"
        "  template <typename S> __device__ static self from(const S& x) {\n"
        "    return static_cast<self>(x);\n  }\n};\n"
        "template <typename To, typename From> __device__ To as(const From& x) {\n"
        "  return Trait<To>::from(x);\n}\n"
        "template <typename T> __global__ void k(const float* x, T* y) { y[0] = as<T>(x[0]); }\n"
    )
    (cast,) = ops(kernel, OpKind.CAST)
    assert cast.results[0].type is not None
    assert cast.results[0].type.dtype == "dtypeof(T)"


def test_a_struct_for_any_type_of_a_sort_leaves_an_open_type_open() -> None:
    """Words of an open type are no bytes because integers have none of their own."""
    kernel = sound(
        "template <typename T> struct Trait {};\n"
        "template <std::integral T> struct Trait<T> { using pair = void; };\n"
        "template <> struct Trait<__half> { using pair = __half2; };\n"
        "template <> struct Trait<__nv_bfloat16> { using pair = __nv_bfloat162; };\n"
        "template <typename T> __global__ void k(const void* x, T* y) {\n"
        "  using two = typename Trait<T>::pair;\n"
        "  two v = static_cast<const two*>(x)[threadIdx.x]; y[0] = v.x;\n}\n"
    )
    (load,) = ops(kernel, OpKind.LOAD)
    made = load.results[0].type
    assert made is not None
    assert (made.dtype, made.shape) == ("dtypeof(T)", ("2",))


def test_a_number_that_nothing_tells_is_no_parameter_of_what_is_called() -> None:
    kernel = sound(
        "template <int N, typename S> __device__ void twice(float* v, S s) {\n"
        "  for (int i = 0; i < N; i++) v[i] *= s;\n}\n"
        "using vec3 = glm::vec<3, float>;\n"
        "template <typename S> __device__ void twice(vec3& v, S s) { v.x *= s; }\n"
        "__global__ void k(const float* x, float* y) {\n"
        "  vec3 v = glm::make_vec3(x); twice(v, 2.f); y[threadIdx.x] = v.x;\n}\n"
    )
    assert not ops(kernel, OpKind.FOR)


def test_an_open_type_beside_a_double_is_a_double() -> None:
    kernel = sound(
        "template <typename T> __global__ void k(const T* x, T* y) { y[0] = x[0] * (1. - x[1]); }\n"
    )
    (made,) = ops(kernel, OpKind.MUL)
    assert made.results[0].type is not None
    assert made.results[0].type.dtype == "f64"


def test_vectors_of_a_library_are_vectors() -> None:
    """Elements behind a pointer and in a constructor are loaded, also those of what is unknown."""
    kernel = sound(
        "using vec3 = glm::vec<3, float>; using mat2 = glm::mat<2, 2, float>;\n"
        "__global__ void k(const float* x, float* y) {\n"
        "  vec3 a = glm::make_vec3(x); vec3 b = vec3(x[3], x[4], x[5]);\n"
        "  mat2 m = mat2(x[6], x[7], x[8], x[9]); vec3 c = a + b * 2.f;\n"
        "  y[0] = c.x + c[1] + m[0][1];\n}\n"
    )
    assert len(ops(kernel, OpKind.LOAD)) == 10
    shapes = [t.shape for one in ops(kernel, OpKind.VECTOR) if (t := one.results[0].type)]
    assert shapes == [("3",), ("3",)]
