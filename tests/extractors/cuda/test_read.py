"""CUDA C++ as tile programs: what the samples must become, line by line."""

from __future__ import annotations

import pytest

from extractors.cuda.read import ReadCuda, read_cuda
from kb.ir import Kernel, Op, ParameterKind, kernel_ops
from kb.ir_text import parse, to_text
from kb.ir_verify import verify
from kb.ops import OpKind
from tests.extractors.cuda.samples import (
    COLLECTIVES,
    COPY,
    DISPATCH,
    LAYER_NORM,
    MATMUL,
    PRODUCT,
    SAMPLES,
    SOFTMAX,
    ops,
)


def program(text: str) -> Kernel:
    """The only kernel of a text."""
    (kernel,) = read_cuda(text, "k.cu").kernels
    return kernel


def body(code: str, parameters: str = "const float* x, float* y, int n") -> Kernel:
    """A kernel with the given body, on one line each."""
    return program(f"__global__ void k({parameters}) {{\n{code}\n}}")


def only(kernel: Kernel, kind: OpKind) -> Op:
    (found,) = ops(kernel, kind)
    return found


def made(kernel: Kernel, value: str | None) -> Op:
    """The operation that makes a value."""
    (found,) = [op for op in kernel_ops(kernel) if value in {r.name for r in op.results}]
    return found


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_samples_are_well_formed_and_read_back(name: str) -> None:
    kernel = program(SAMPLES[name])
    assert verify(kernel) == ()
    assert parse(to_text(kernel)) == kernel
    assert ops(kernel, OpKind.OPAQUE) == []


def test_head() -> None:
    kernel = program(LAYER_NORM)
    assert [(p.name, p.kind, p.annotation) for p in kernel.entry.parameters] == [
        ("T", ParameterKind.CONSTEXPR, "dtype"),
        ("x", ParameterKind.ARRAY, "dtypeof(T) const restrict"),
        ("w", ParameterKind.ARRAY, "f32 const restrict"),
        ("y", ParameterKind.ARRAY, "dtypeof(T) restrict"),
        ("n", ParameterKind.SCALAR, "i32"),
        ("eps", ParameterKind.SCALAR, "f32"),
    ]
    assert kernel.entry.options == (("max_threads", 256), ("min_blocks", 2))
    assert kernel.entry.span.lines == (8, 33)


def test_lines_are_those_of_the_file() -> None:
    kernel = program(LAYER_NORM)
    places = {
        OpKind.ALLOCATE: [11], OpKind.BARRIER: [26], OpKind.RSQRT: [28],
        OpKind.SHUFFLE: [3, 3], OpKind.BLOCK_ID: [12],
    }  # fmt: skip
    assert {kind: [op.span.line for op in ops(kernel, kind)] for kind in places} == places


def test_shared_array_has_extents_and_rows() -> None:
    kernel = program(LAYER_NORM)
    shared = only(kernel, OpKind.ALLOCATE)
    assert str(shared.results[0].type) == "pointer<f32>[2, 8]@shared"
    shape = made(kernel, shared.operand("shape"))
    assert [made(kernel, v).attribute("value") for v in shape.inputs] == [2, 8]
    stores = [op for op in ops(kernel, OpKind.STORE) if op.attribute("space") == "shared"]
    assert [op.span.line for op in stores] == [23, 24]


def test_strided_loop_carries_its_sums() -> None:
    kernel = program(LAYER_NORM)
    loop = ops(kernel, OpKind.FOR)[0]
    assert [r.hint for r in loop.results] == ["s", "q"]
    bounds = made(kernel, loop.operand("iterable"))
    assert made(kernel, bounds.operand("low")).kind == OpKind.THREAD_ID
    assert bounds.operand("high") == "n"
    assert made(kernel, bounds.operand("step")).kind == OpKind.BLOCK_THREADS


def test_narrowing_cast_before_the_store() -> None:
    kernel = program(LAYER_NORM)
    last = [op for op in ops(kernel, OpKind.STORE) if op.attribute("space") is None][-1]
    cast = made(kernel, last.operand("value"))
    assert (cast.kind, cast.operand("dtype")) == (OpKind.CAST, "T")


def test_vector_access_and_cache_hint() -> None:
    kernel = program(COPY)
    load, store = only(kernel, OpKind.LOAD), only(kernel, OpKind.STORE)
    assert str(load.results[0].type) == "tile<f32>[4]@register"
    assert (load.attribute("cache"), store.attribute("cache")) == ("cs", "cs")
    scaled = made(kernel, made(kernel, load.operand("pointer")).operand("rhs"))
    assert scaled.kind == OpKind.MUL
    assert made(kernel, scaled.operand("rhs")).attribute("value") == 4
    assert made(kernel, store.operand("value")).kind == OpKind.INSERT


def test_early_return_leaves_the_kernel() -> None:
    branch = only(program(COPY), OpKind.IF)
    assert [region.terminator.kind for region in branch.regions if region.terminator] == [
        OpKind.RETURN, OpKind.YIELD,
    ]  # fmt: skip


def test_asynchronous_copies() -> None:
    kernel = program(MATMUL)
    copy = only(kernel, OpKind.ASYNC_COPY)
    assert made(kernel, copy.operand("target")).kind == OpKind.SHARED_ADDRESS
    assert copy.attribute("opcode") == "cp.async.cg.shared.global"
    assert len(ops(kernel, OpKind.ASYNC_COMMIT)) == len(ops(kernel, OpKind.ASYNC_WAIT)) == 1
    assert str(only(kernel, OpKind.ALLOCATE).results[0].type) == "pointer<f16>[2, 16, 24]@shared"


def test_a_predicate_in_front_of_a_copy_is_its_mask() -> None:
    text = """asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; "
        "@p cp.async.cg.shared.global.L2::128B [%1], [%2], 16; }" ::"r"(n), "r"(7), "l"(x));"""
    copy = only(body(text), OpKind.ASYNC_COPY)
    assert [role for role, _ in copy.operands] == ["target", "pointer", "bytes", "mask"]
    assert (copy.operand("pointer"), copy.operand("mask")) == ("x", "n")
    assert copy.attribute("cache") == "cg.L2::128B"


_APPLIED = """__device__ float twice(float v) {{ return v + v; }}
struct Square {{ __device__ float operator()(float v) const {{ return v * v; }} }};
using Step = float (*)(float);
template <Step step> __device__ float through(float v) {{ return step(v); }}
__device__ float by(Step step, float v) {{ return step(v); }}
__global__ void k(const float* x, float* y, int n) {{ {code} }}
"""


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param("y[0] = through<twice>(x[0]);", OpKind.ADD, id="template argument"),
        pytest.param("y[0] = by(twice, x[0]);", OpKind.ADD, id="argument"),
        pytest.param("Square f; y[0] = f(x[0]);", OpKind.MUL, id="struct"),
    ],
)
def test_functions_that_are_handed_on_are_read(code: str, kind: OpKind) -> None:
    kernel = program(_APPLIED.format(code=code))
    assert ops(kernel, OpKind.OPAQUE) == []
    stored = made(kernel, only(kernel, OpKind.STORE).operand("value"))
    assert (stored.kind, stored.inputs) == (kind, (only(kernel, OpKind.LOAD).results[0].name,) * 2)


def test_arrays_of_a_library_are_vectors_and_its_converters_casts() -> None:
    kernel = program("""template <class T> __global__ void k(const T* x, float* y) {
  using Given = cutlass::Array<T, 8>;
  using Made = cutlass::Array<float, 8>;
  auto from = reinterpret_cast<const Given*>(x);
  auto to = reinterpret_cast<Made*>(y);
  cutlass::NumericArrayConverter<typename Made::Element, typename Given::Element, 8> wide;
  to[threadIdx.x] = wide(from[threadIdx.x]);
}""")
    assert ops(kernel, OpKind.OPAQUE) == []
    assert str(only(kernel, OpKind.LOAD).results[0].type) == "tile<dtypeof(T)>[8]@register"
    cast = made(kernel, only(kernel, OpKind.STORE).operand("value"))
    assert (cast.kind, str(cast.results[0].type)) == (OpKind.CAST, "tile<f32>[8]@register")


def test_matrix_product_of_registers() -> None:
    kernel = program(PRODUCT)
    product = only(kernel, OpKind.MMA)
    assert (product.attribute("scope"), product.attribute("shape")) == ("warp", "m16n8k16")
    sizes = {role: len(made(kernel, value).inputs) for role, value in product.operands}
    assert sizes == {"lhs": 4, "rhs": 2, "acc": 4}
    assert product.results[0].type is not None
    assert product.results[0].type.dtype == "f32"
    assert only(kernel, OpKind.STATIC_RANGE).span.lines == (8, 9)


def test_fast_exponential_rounds_approximately() -> None:
    kernel = program(SOFTMAX)
    rounding = {made(kernel, op.operand("rounding")).attribute("name") for op in
                ops(kernel, OpKind.EXP)}  # fmt: skip
    assert rounding == {"rounding.approx"}
    assert {op.attribute("mode") for op in ops(kernel, OpKind.SHUFFLE)} == {"down"}


def test_template_arguments_stay_symbols() -> None:
    kernel = program(DISPATCH)
    loop = only(kernel, OpKind.STATIC_RANGE)
    assert loop.operand("high") == "WIDTH"
    assert only(kernel, OpKind.IF).operand("condition") == "SCALED"
    assert kernel.entry.span.line == 15


def test_collectives_say_who_takes_part() -> None:
    kernel = program(COLLECTIVES)
    assert [op.attribute("scope") for op in ops(kernel, OpKind.REDUCE_SUM)] == ["block", "warp"]
    assert only(kernel, OpKind.BARRIER).attribute("scope") == "block"
    assert only(kernel, OpKind.ATOMIC_ADD).operand("pointer") == "out"


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        pytest.param("cuda::std::plus<>", OpKind.REDUCE_SUM, id="sum"),
        pytest.param("cuda::std::maximum<>", OpKind.REDUCE_MAX, id="maximum"),
        pytest.param("own::Joined", OpKind.REDUCE, id="unknown"),
    ],
)
def test_another_name_for_an_operator(named: str, kind: OpKind) -> None:
    text = COLLECTIVES.replace("Sum(v)", "Reduce(v, Join{})")
    kernel = program(text.replace("template <int", f"using Join = {named};\ntemplate <int"))
    assert ops(kernel, kind)[0].attribute("scope") == "block"


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        pytest.param("y[0] = x[0] / n;", [OpKind.CAST, OpKind.DIV], id="mixed division"),
        pytest.param("y[n / 2] = 0.f;", [OpKind.FLOOR_DIV], id="whole division"),
        pytest.param("do { n -= 1; } while (n > 0); y[n] = 1.f;", [OpKind.WHILE], id="do while"),
        pytest.param("y[0] = n > 0 ? x[0] : 0.f;", [OpKind.IF_EXPRESSION, OpKind.LOAD],
                     id="guarded load"),
        pytest.param("y[0] = n > 0 ? 1.f : 2.f;", [OpKind.SELECT], id="plain choice"),
        pytest.param("using T = float; half v[2]; v[n] = 1; y[0] = n > 0 ? T(v[n]) : 0.f;",
                     [OpKind.SELECT], id="choice of a converted element"),
        pytest.param("switch (n) { case 1: y[0] = 1.f; break; default: y[0] = 2.f; }",
                     [OpKind.EQ, OpKind.IF], id="switch"),
        pytest.param("auto f = [&](float v) { return v * 2.f; }; y[0] = f(x[0]);", [OpKind.MUL],
                     id="lambda"),
        pytest.param("long long i = n; y[i] = 0.f;", [OpKind.CAST], id="wide index"),
        pytest.param('asm volatile("griddepcontrol.wait;");', [OpKind.GRID_WAIT], id="grid wait"),
        pytest.param('unsigned l; asm("mov.u32 %0, %%laneid;" : "=r"(l)); y[l] = 0.f;',
                     [OpKind.LANE_ID], id="special register"),
        pytest.param("if (n > 0 && x[n] > 0.f) y[0] = 1.f;", [OpKind.IF_EXPRESSION, OpKind.IF],
                     id="short circuit"),
        pytest.param('asm("bar.sync 1, 64;");', [OpKind.BARRIER], id="named barrier"),
    ],
)  # fmt: skip
def test_words(code: str, kinds: list[OpKind]) -> None:
    kernel = body(code)
    assert verify(kernel) == ()
    assert ops(kernel, OpKind.OPAQUE) == []
    seen = [OpKind(op.kind) for op in kernel_ops(kernel)]
    assert [kind for kind in kinds if kind not in seen] == []


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("y[0] = not_known(x[0]);", id="unknown function"),
        pytest.param("again: y[0] = 1.f; if (n--) goto again;", id="goto"),
        pytest.param("switch (n) { case 1: y[0] = 1.f; case 2: y[1] = 2.f; }", id="fall through"),
        pytest.param("struct S s; s.go(y);", id="unknown method"),
    ],
)
def test_the_rest_is_opaque_with_its_line(code: str) -> None:
    kernel = body(code)
    assert verify(kernel) == ()
    assert 2 in {op.span.line for op in ops(kernel, OpKind.OPAQUE)}
    found = read_cuda(f"__global__ void k(float* y, const float* x, int n) {{\n{code}\n}}", "k.cu")
    assert any(note.lines == (2, 2) for note in found.diagnostics)


def test_an_opaque_call_may_write_what_it_is_handed() -> None:
    kernel = body("float a = 1.f;\nfill(&a);\ny[0] = a;")
    opaque = only(kernel, OpKind.OPAQUE)
    assert only(kernel, OpKind.STORE).operand("value") == opaque.results[1].name


def test_a_helper_of_a_header_has_the_line_of_its_call() -> None:
    texts = {"h.cuh": "\n\n__device__ float twice(float v) { return v * 2.f; }\n"}

    def load(path: str, name: str) -> tuple[str, str] | None:
        return (name, texts[name]) if name in texts else None

    text = '#include "h.cuh"\n__global__ void k(float* y) {\n  y[0] = twice(y[1]);\n}\n'
    (kernel,) = read_cuda(text, "k.cu", load).kernels
    assert [(op.span.path, op.span.line) for op in ops(kernel, OpKind.MUL)] == [("k.cu", 3)]


def test_helpers_change_what_they_take_by_reference() -> None:
    kernel = program(
        "__device__ void widen(float& to, const half* from) { to = __half2float(*from); }\n"
        "__global__ void k(const half* x, float* y) {\n  float a;\n  widen(a, x + 3);\n"
        "  y[0] = a;\n}"
    )
    store = only(kernel, OpKind.STORE)
    assert made(kernel, store.operand("value")).kind == OpKind.CAST
    assert ops(kernel, OpKind.OPAQUE) == []


def test_condition_of_the_architecture_picks_a_branch() -> None:
    kernel = body(
        "#if __CUDA_ARCH__ >= 900\n y[0] = 1.f;\n#else\n y[0] = 2.f;\n#endif\n"
        "#ifdef USE_ROCM\n y[1] = 3.f;\n#endif"
    )
    assert [made(kernel, op.operand("value")).attribute("value") for op in
            ops(kernel, OpKind.STORE)] == [1.0]  # fmt: skip


def test_a_body_for_a_later_architecture_is_read_as_its_compiler_sees_it() -> None:
    found = read_cuda(
        "__global__ void later(float* y) {\n#if __CUDA_ARCH__ >= 1000\n y[0] = 1.f;\n#endif\n}\n"
        "__global__ void both(float* y) {\n y[0] = 2.f;\n#if __CUDA_ARCH__ >= 1000\n y[1] = 3.f;\n"
        "#endif\n}\n__global__ void nowhere(float* y) {\n#if __CUDA_ARCH__ < 900\n y[0] = 4.f;\n"
        "#endif\n}\n",
        "k.cu",
    )
    assert {k.name: len(ops(k, OpKind.STORE)) for k in found.kernels} == {
        "later": 1, "both": 1, "nowhere": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("instead", "stores"),
    [
        ('if (threadIdx.x == 0) {\n  printf("needs sm_100");\n  __trap();\n }', 1),
        ('asm volatile("trap;");', 1),
        ("using element = float;\n const int thread = threadIdx.x;", 1),
        ("y[1] = y[0];\n y[2] = 3.f;", 2),
        ("other(y);", 0),
    ],
    ids=["print and stop", "stop by assembly", "names alone", "other work", "a call that may work"],
)
def test_a_body_that_only_refuses_the_target_is_read_for_the_later_one(
    instead: str, stores: int
) -> None:
    found = read_cuda(
        "__global__ void later(float* y) {\n#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000\n"
        f" y[0] = 1.f;\n#else\n {instead}\n#endif\n}}\n",
        "k.cu",
    )
    (kernel,) = found.kernels
    assert len(ops(kernel, OpKind.STORE)) == stores


def test_a_helper_that_asserts_what_is_false_is_read_for_the_later_target() -> None:
    text = (
        "__device__ float wide(const float* x) {\n#if __CUDA_ARCH__ >= 1000\n return *x;\n#else\n"
        ' assert(false && "needs sm_100");\n return 0.f;\n#endif\n}\n'
        "__global__ void later(const float* x, float* y) { y[0] = wide(x); }\n"
    )
    (kernel,) = read_cuda(text, "k.cu").kernels
    assert len(ops(kernel, OpKind.LOAD)) == 1
    (never,) = read_cuda(text.replace("return *x;", "assert(false); return *x;"), "k.cu").kernels
    assert not ops(never, OpKind.LOAD)


_NARROW = """__device__ unsigned narrow(const float (&v)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
 unsigned word;
 asm("cvt.rn.satfinite.e2m1x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v[0]), "f"(v[1]));
 return word;
#else
 return 0;
#endif
}
__device__ unsigned both(const float* x) { float v[2] = {x[0], x[1]}; return narrow(v); }
"""
_STORING = "__global__ void later(const float* x, unsigned* y) { y[0] = both(x); }\n"


@pytest.mark.parametrize("header", [False, True])
def test_a_helper_that_hands_back_nothing_is_read_for_the_later_target(header: bool) -> None:
    def load(path: str, name: str) -> tuple[str, str] | None:
        return (name, _NARROW) if name == "narrow.cuh" else None

    text = '#include "narrow.cuh"\n' + _STORING if header else _NARROW + _STORING
    (kernel,) = read_cuda(text, "k.cu", load).kernels
    assert len(ops(kernel, OpKind.INLINE_ASM)) == 1


@pytest.mark.parametrize(
    ("was", "instead"),
    [
        ("return 0;", "return v[0] > 0.f;"),
        ("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000", "#if 0"),
        ("__CUDA_ARCH__ >= 1000", "__CUDA_ARCH__ >= 1300"),
        ("{ y[0] = both(x); }", "{ if constexpr (sizeof(*x) == 8) y[0] = both(x); }"),
    ],
    ids=["something older devices do", "no question of the target", "never", "some instances"],
)
def test_a_helper_that_serves_the_target_or_none_stays(was: str, instead: str) -> None:
    (kernel,) = read_cuda((_NARROW + _STORING).replace(was, instead), "k.cu").kernels
    assert not ops(kernel, OpKind.INLINE_ASM)


def test_a_kernel_made_by_a_macro() -> None:
    found = read_cuda(
        "#define DEFINE(name, ...) template <__VA_ARGS__> __global__ void name(float* y)\n"
        "DEFINE(first, bool B) {\n  y[0] = 1.f;\n}\nDEFINE(second, int N) { y[N] = 2.f; }\n",
        "k.cu",
    )
    assert [(k.name, k.entry.span.line) for k in found.kernels] == [("first", 2), ("second", 5)]


def test_a_file_without_kernels_says_so() -> None:
    found: ReadCuda = read_cuda("int f() { return 1; }", "k.cu")
    assert found.kernels == ()
    assert "no kernel" in found.diagnostics[0].message


def test_macros_hold_until_they_are_taken_back() -> None:
    found = read_cuda(
        '#define MAKE(n) extern "C" __global__ void k##n(float* y) { y[0] = VALUE; }\n'
        "#define VALUE 1.f\nMAKE(1)\n#undef VALUE\n#define VALUE 2.f\nMAKE(2)\n#undef MAKE\n",
        "k.cu",
    )
    values = [made(k, only(k, OpKind.STORE).operand("value")) for k in found.kernels]
    assert [(k.name, k.entry.span.line) for k in found.kernels] == [("k1", 3), ("k2", 6)]
    assert [value.attribute("value") for value in values] == [1.0, 2.0]


def test_a_word_alone_before_a_namespace_is_a_macro_of_another_file() -> None:
    text = "LIB_BEGIN_NAMESPACE\nnamespace a {\n__global__ void k(float* y) { y[0] = 1.f; }\n}\n"
    assert program(text).entry.span.line == 3


def test_nothing_where_a_value_is_wanted_is_opaque() -> None:
    kernel = body("y[0] = x[0] + __syncthreads();")
    assert verify(kernel) == ()
    assert [len(op.operands) for op in ops(kernel, OpKind.ADD)] == [2, 2, 2]
    assert only(kernel, OpKind.OPAQUE).attribute("what") == "the value of nothing"


def test_an_instruction_with_a_constant_stays_as_it_is() -> None:
    kernel = body(
        'float a = 1.f;\nasm("add.f32 %0, %1, 0f3F800000;" : "=f"(a) : "f"(a));\ny[0] = a;'
    )
    assert "add.f32" in str(only(kernel, OpKind.INLINE_ASM).attribute("asm"))


def test_enumerations_of_a_function_are_constants() -> None:
    text = (
        "__global__ void k(float* x) {\n  enum { A = 4, B };\n  enum { C = A * B };\n"
        "  x[C] = 1.f;\n}\n"
    )
    (kernel,) = read_cuda(text, "k.cu").kernels
    assert not [op for op in kernel_ops(kernel) if op.kind == OpKind.OPAQUE]
    values = {
        op.results[0].name.partition(".")[0]: op.attribute("value")
        for op in kernel_ops(kernel)
        if op.kind == OpKind.CONST
    }
    assert (values["A"], values["B"], values["C"]) == (4, 5, 20)


def test_a_loop_whose_test_adds_to_the_variable_is_a_range() -> None:
    kernel = body("for (int i = 0; i + 4 <= n; i += 4) y[i] = x[i];")
    assert not ops(kernel, OpKind.WHILE)
    (loop,) = [op for op in kernel_ops(kernel) if op.kind == OpKind.FOR]
    made = only(kernel, OpKind.RANGE)
    assert loop.operand("iterable") == made.result
    high = next(op for op in kernel_ops(kernel) if made.operand("high") in [op.result])
    assert high.kind == OpKind.ADD  # n - 4, and one more
    grows = "for (int i = 0; i + n <= 4; i += n) { y[i] = x[i]; n = n + 1; }"
    assert ops(body(grows), OpKind.WHILE)
