"""Questions of types, constants of structs around and of open types, references to arrays, what the
kernel is given whole, barriers of clusters, and functions under other names."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.ir import Op, kernel_ops
from kb.ir_parse import parse
from kb.ir_text import to_text


def of(text: str, *kinds: str) -> list[Op]:
    """Operations of those kinds, in order."""
    (found,) = read_cuda(text, "file.cu").kernels
    assert parse(to_text(found)) == found
    return [op for op in kernel_ops(found) if op.kind in kinds]


ASKED = """struct First {}; struct Second {};
template <typename T, typename U> struct Held { T* at; };
template <typename V, typename T, typename C>
__global__ void k(const T* x, float* out) {
    using D = typename V::D;
    if constexpr (ASKED) out[0] = 1.f; else out[1] = 2.f;
}
"""


@pytest.mark.parametrize(
    ("asked", "sides"),
    [
        ("std::is_same_v<T, half>", ("T", "f16")),
        ("std::is_same<T, half>::value", ("T", "f16")),
        ("std::is_same_v<std::remove_cvref_t<T>, half>", ("T", "f16")),
        ("std::is_same_v<T, float2>", ("T", "f32x2")),
        ("std::is_same_v<D, float>", ("D", "f32")),
        ("std::is_same_v<D, float*>", ("D", "f32*")),
        ("std::is_same_v<C, Held<T, int>>", ("C", "Held<T, i32>")),
    ],
)
def test_whether_an_open_type_is_another_one(asked: str, sides: tuple[str, str]) -> None:
    (found,) = of(ASKED.replace("ASKED", asked), "eq")
    made = {
        op.results[0].name: op for op in of(ASKED.replace("ASKED", asked), "dtype", "attribute")
    }
    shown = [made[v].attribute("name") if v in made else v for v in found.inputs]
    assert shown == [*sides]


@pytest.mark.parametrize(
    ("asked", "stores"),
    [
        ("std::is_same_v<First, First>", 1.0),
        ("std::is_same_v<First, Second>", 2.0),
        ("std::is_same_v<Held<int, int>, Held<int, float>>", 2.0),
        ("std::is_same_v<int*, int>", 2.0),
        ("std::is_same<float*, float*>::value", 1.0),
    ],
)
def test_types_that_are_known_are_one_or_not(asked: str, stores: float) -> None:
    (store,) = of(ASKED.replace("ASKED", asked), "store")
    made = {op.results[0].name: op for op in of(ASKED.replace("ASKED", asked), "const")}
    assert made[store.inputs[1]].attribute("value") == stores


def test_a_type_that_nobody_knows_may_be_any() -> None:
    assert not of(ASKED.replace("ASKED", "std::is_same_v<First, Unknown>"), "opaque")
    (told,) = of(ASKED.replace("ASKED", "std::is_same_v<First, Unknown>"), "eq")
    assert len(told.inputs) == 2


TAGGED = """struct First {}; struct Second {};
__global__ void k(float* out) {
    auto run = [&](auto tag) {
        constexpr bool first = std::is_same_v<decltype(tag), First>;
        if constexpr (first) out[0] = 1.f; else out[1] = 2.f;
    };
    if (threadIdx.x < 128) run(First{}); else run(Second{});
}
"""


def test_the_type_of_a_variable_chooses_what_is_compiled() -> None:
    assert len(of(TAGGED, "store")) == 2
    assert not of(TAGGED, "opaque")


def test_a_trait_of_an_open_type_is_a_member_of_it() -> None:
    text = ASKED.replace("ASKED", "std::is_integral_v<T>")
    assert [op.attribute("name") for op in of(text, "attribute")] == ["is_integral"]


AROUND = """template <int N> struct Outer {
    static constexpr unsigned wide = 1u << 8;
    using number = float;
    struct Room { unsigned counts[2][wide]; number sums[N][wide]; };
};
__global__ void k(float* out, int turn) {
    extern __shared__ char raw[];
    auto* room = reinterpret_cast<Outer<4>::Room*>(raw);
    room->counts[turn][threadIdx.x] = 0;
    room->sums[turn][threadIdx.x] = out[threadIdx.x];
}
"""


def test_a_struct_in_another_one_has_its_constants_and_names_of_types() -> None:
    assert not of(AROUND, "opaque")
    made = [op.results[0].type for op in of(AROUND, "attribute")]
    assert [(one.dtype, one.shape) for one in made if one] == [
        ("u32", ("2", "256")), ("f32", ("4", "256")),
    ]  # fmt: skip


OPENED = """template <typename T> struct Of {};
template <> struct Of<float> {
    using pair = float2; using one = float; static constexpr int n = 1;
};
template <> struct Of<half> {
    using pair = half2; using one = half; static constexpr int n = 1;
};
template <> struct Of<float2> { using one = float; static constexpr int n = 2; };
template <> struct Of<half2> { using one = half; static constexpr int n = 2; };
template <typename T> using pair_t = typename Of<T>::pair;
template <typename T> __device__ auto& parts(T& v) {
    using Mine = Of<std::remove_const_t<T>>;
    using held = typename Mine::one;
    using one = std::conditional_t<std::is_const_v<T>, const held, held>;
    constexpr int n = Mine::n;
    return reinterpret_cast<one (&)[n]>(v);
}
template <typename T> __global__ void k(pair_t<T>* out) {
    pair_t<T> v = out[threadIdx.x];
    auto& both = parts(v);
    both[0] *= both[1];
    out[threadIdx.x] = v;
}
"""


def test_a_constant_that_all_specialisations_in_question_agree_in() -> None:
    assert not of(OPENED, "opaque")
    assert not [op for op in of(OPENED, "attribute") if op.attribute("name") == "n"]


def test_what_is_written_through_a_reference_to_an_array_is_written() -> None:
    (store,) = of(OPENED, "store")
    insert = of(OPENED, "insert")[-1]
    casts = {op.results[0].name: op.inputs[0] for op in of(OPENED, "bitcast")}
    value = store.inputs[1]
    assert insert.results[0].name in (value, casts.get(value))


GIVEN = """struct Maps { CUtensorMap second; int n; };
__device__ void pull(unsigned to, const CUtensorMap* map, int x, unsigned bar) {
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2}], [%3];" :: "r"(to), "l"(map), "r"(x), "r"(bar) : "memory");
}
__global__ void k(const __grid_constant__ CUtensorMap first, const __grid_constant__ Maps maps) {
    __shared__ float room[128];
    __shared__ unsigned long bar;
    asm volatile("prefetch.tensormap [%0];" :: "l"((unsigned long)(&first)) : "memory");
    pull(__cvta_generic_to_shared(room), &first, 3, __cvta_generic_to_shared(&bar));
    pull(__cvta_generic_to_shared(room), &maps.second, 3, __cvta_generic_to_shared(&bar));
}
"""


def test_the_address_of_a_map_that_the_kernel_is_given_is_the_map() -> None:
    assert not of(GIVEN, "opaque")
    first, second = of(GIVEN, "bulk_copy")
    assert "first" in first.inputs
    (field,) = (op for op in of(GIVEN, "attribute"))
    assert field.results[0].name in second.inputs


def test_the_address_of_a_variable_of_its_own_is_not_known() -> None:
    text = GIVEN.replace('    asm volatile("pre', '    CUtensorMap own;\n    asm volatile("pre')
    assert len(of(text.replace("&first, 3", "&own, 3"), "opaque")) == 1


CLUSTER = """namespace cg = cooperative_groups;
__global__ void k(float* out) {
    __shared__ float part;
    auto cluster = cg::this_cluster();
    cluster.barrier_arrive();
    cluster.barrier_wait();
    out[threadIdx.x] = *cluster.map_shared_rank(&part, 1);
    cute::cluster_arrive();
    cute::cluster_wait();
    __cluster_barrier_wait();
}
"""


def test_the_second_half_of_a_barrier_of_a_cluster_is_where_threads_wait() -> None:
    assert [op.attribute("scope") for op in of(CLUSTER, "barrier")] == ["cluster"] * 3
    assert len(of(CLUSTER, "barrier_arrive")) == 2
    (load,) = of(CLUSTER, "load")
    assert load.results[0].type is not None
    assert load.results[0].type.dtype == "f32"
    assert load.attribute("space") == "shared"


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("std::fabs(x)", "abs"),
        ("cuda::std::isfinite(x)", "extern_math"),
        ("__builtin_expf(x)", "exp"),
        ("__byte_perm(u, u, 0x3210)", "extern_math"),
        ("__funnelshift_l(u, u, 3)", "extern_math"),
        ("__ballot(x > 0)", "vote"),
        ("std::numeric_limits<float>::quiet_NaN()", "bitcast"),
    ],
)
def test_functions_under_other_names(call: str, kind: str) -> None:
    text = f"__global__ void k(float* out, float x, unsigned u) {{ out[0] = {call}; }}"
    assert of(text, kind)
    assert not of(text, "opaque")


@pytest.mark.parametrize(
    ("held", "given"), [("state", "&state"), ("all[threadIdx.x]", "&all[threadIdx.x]")]
)
def test_a_generator_begins_with_a_seed(held: str, given: str) -> None:
    text = f"""__global__ void k(float* out, unsigned long seed, int place) {{
    curandState_t state;
    __shared__ curandState_t all[128];
    curand_init(seed, blockIdx.x, place, {given});
    out[threadIdx.x] = curand_uniform(&{held}) * M_LN2;
}}"""
    (made,) = of(text, "extern_math")
    assert [made.inputs[0], made.inputs[2]] == ["seed", "place"]
    assert not of(text, "opaque")


CHOSEN = """template <typename To, typename From> __device__ To scaled(const From& x, float s) {
    static_assert(never<From>, "none");
}
template <> __device__ half scaled<half, uint8_t>(const uint8_t& a, float s) {
    return __float2half(float(a) * s);
}
template <> __device__ float scaled<float, uint8_t>(const uint8_t& a, float s) {
    return float(a) * s;
}
template <> __device__ uint8_t scaled<uint8_t, half>(const half& a, float s) {
    return uint8_t(__half2float(a) / s);
}
template <> __device__ uint8_t scaled<uint8_t, float>(const float& a, float s) {
    return uint8_t(a / s);
}
template <typename T, typename C> __global__ void k(const T* x, C* out, float s) {
    out[threadIdx.x] = scaled<C, T>(x[threadIdx.x], s);
}
void run(const float* x, const half* y, uint8_t* out) {
    k<float, uint8_t><<<1, 32>>>(x, out, 2.f);
    k<half, uint8_t><<<1, 32>>>(y, out, 2.f);
}
"""


def test_specialisations_for_what_the_host_never_gives_are_not_meant() -> None:
    assert len(of(CHOSEN, "div")) == 1
    assert not of(CHOSEN, "opaque")
    other = CHOSEN.replace("k<half, uint8_t>", "k<uint8_t, half>")
    assert [op.attribute("what") for op in of(other, "opaque")] == ["scaled"]
    assert [op.attribute("what") for op in of(CHOSEN.partition("void run")[0], "opaque")]


HALVED = """template <int N> struct Sum {
    template <typename T> static __device__ T run(T x) {
        constexpr int half = N / 2;
        x += __shfl_xor_sync(0xffffffff, x, half);
        return Sum<half>::run(x);
    }
};
template <> struct Sum<2> {
    template <typename T> static __device__ T run(T x) {
        return x + __shfl_xor_sync(0xffffffff, x, 1);
    }
};
template <int N> __device__ float product(float x) { return x * product<N - 1>(x); }
template <> __device__ float product<1>(float x) { return x; }
__global__ void k(float* out) { out[0] = CALL; }
"""


@pytest.mark.parametrize(
    ("call", "kind", "count"),
    [
        ("Sum<16>::run(out[threadIdx.x])", "shuffle", 4),
        ("product<5>(out[threadIdx.x])", "mul", 4),
    ],
)
def test_a_template_that_calls_itself_with_other_numbers(call: str, kind: str, count: int) -> None:
    text = HALVED.replace("CALL", call)
    assert len(of(text, kind)) == count
    assert not of(text, "opaque")


def test_a_function_that_calls_itself_with_the_same_numbers_ends_somewhere() -> None:
    text = HALVED.replace("product<N - 1>", "product<N>").replace("CALL", "product<5>(1.f)")
    assert len(of(text, "opaque")) == 1


VALUED = """__global__ void k(float* out) {
    auto run = [&](auto tag) {
        if constexpr (decltype(tag)::value) out[0] = 1.f; else out[1] = 2.f;
    };
    if (threadIdx.x == 1) run(std::true_type{}); else run(std::false_type{});
    auto put = [&](auto n) { constexpr int place = decltype(n)::value; out[place] = n; };
    put(std::integral_constant<int, 3>{});
}
"""


def test_the_number_that_a_variable_stands_for_by_its_type() -> None:
    assert len(of(VALUED, "store")) == 3
    assert not of(VALUED, "opaque")


ROWS = """__device__ void fill(float (*rows)[8], float by) {
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 8; ++j) rows[i][j] = by;
}
__global__ void k(float* out, int i) {
    extern __shared__ char raw[];
    int (*all)[128] = reinterpret_cast<int (*)[128]>(raw);
    float (*rest)[64];
    rest = reinterpret_cast<float (*)[64]>(raw + 4096);
    all[i][threadIdx.x] = 2;
    rest[1][threadIdx.x] = 1.f;
    float held[2][8];
    fill(held, out[threadIdx.x]);
    out[threadIdx.x] = held[1][3] + all[0][threadIdx.x];
}
"""


def test_pointers_to_arrays_count_in_whole_rows() -> None:
    assert not of(ROWS, "opaque")
    assert {op.attribute("space") for op in of(ROWS, "store")} == {"shared", None}
    numbers = [op.attribute("value") for op in of(ROWS, "const")]
    assert 128 in numbers
    assert 64 in numbers


PTX = """namespace ptx = cuda::ptx;
__global__ void k(const float* in, float* out) {
    __shared__ alignas(128) float held[256];
    __shared__ uint64_t bar;
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, held, in, 1024, &bar);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 1024);
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
    ptx::fence_proxy_async(ptx::space_shared);
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, held, 1024);
    ptx::cp_async_bulk_commit_group();
}
"""


def test_functions_of_the_library_that_stand_for_one_instruction() -> None:
    assert not of(PTX, "opaque")
    inwards, outwards = of(PTX, "bulk_copy")
    assert [role for role, _ in inwards.operands] == ["target", "pointer", "bytes", "barrier"]
    assert [role for role, _ in outwards.operands] == ["pointer", "source", "bytes"]
    (wait,) = of(PTX, "barrier_wait")
    assert wait.results


SEQUENCES = """template <typename F, size_t... I>
__device__ void each(F&& f, std::index_sequence<I...>) {
    (f(std::integral_constant<int, static_cast<int>(I)>{}), ...);
}
template <int... I>
__device__ bool all(const float* x, std::integer_sequence<int, I...>) {
    return (... && (x[I] > 0.f));
}
template <int N> __global__ void k(const float* x, float* out) {
    each([&](auto i) { constexpr int at = 1 + decltype(i)::value; out[at] = x[at]; },
         std::make_index_sequence<COUNT>{});
    if (all(x, std::make_integer_sequence<int, COUNT>{})) out[0] = 1.f;
}
"""


@pytest.mark.parametrize(
    ("count", "stores", "loops"), [("3", 4, 0), ("N", 2, 2), ("N - 1", 2, 2), ("40", 2, 2)]
)
def test_folds_over_a_sequence_of_numbers(count: str, stores: int, loops: int) -> None:
    text = SEQUENCES.replace("COUNT", count)
    assert not of(text, "opaque")
    assert len(of(text, "store")) == stores
    assert len(of(text, "for")) == loops


def test_a_call_of_plain_names_as_a_template_argument_is_a_value() -> None:
    text = """constexpr __device__ int rounded(int a, int b) { return (a + b - 1) / b; }
template <int N> __device__ float many(const float* x) { return x[N]; }
template <int A, int B> __global__ void k(const float* x, float* out) {
    out[0] = many<rounded(A, B)>(x);
}"""
    assert of(text, "floor_div")
    assert not of(text, "opaque")


MADE = """template <class T> struct Pair {
    T x, y;
    __device__ void store(T* p, int i) const { p[2 * i] = x; p[2 * i + 1] = y; }
};
template <class T> __device__ Pair<T> turned(T a, T b) { return Pair<T>{a * b, a - b}; }
template <class T, int N> struct Plus { __device__ T operator()(T a, T b) { return a + b; } };
__global__ void k(float* out, int i) {
    turned(out[i], out[i + 1]).store(out, i);
    out[9] = Plus<float, 8>()(out[1], out[2]);
    __builtin_assume(i < 3);
    __shared__ cuda::barrier<cuda::thread_scope_block> bar[2];
    init(&bar[i], 4);
}
"""


def test_methods_of_what_is_made_where_they_are_called() -> None:
    assert not of(MADE, "opaque")
    assert len(of(MADE, "store")) == 3
    assert len(of(MADE, "assume")) == len(of(MADE, "barrier_init")) == 1


def test_a_function_of_the_file_that_begins_something_is_no_barrier() -> None:
    text = """__device__ void init(float* at, int n) { *at = n; }
__global__ void k(float* out, int n) { init(&out[threadIdx.x], n); }"""
    assert not of(text, "barrier_init")
    assert len(of(text, "store")) == 1


def test_keys_in_falling_order_that_lie_striped() -> None:
    text = """__global__ void k(float* x) {
    typedef cub::BlockRadixSort<float, 128, 4, int> Sort;
    __shared__ typename Sort::TempStorage room;
    float keys[4];
    int places[4];
    for (int i = 0; i < 4; ++i) { keys[i] = x[threadIdx.x * 4 + i]; places[i] = i; }
    Sort(room).SortDescendingBlockedToStriped(keys, places);
    x[threadIdx.x] = keys[0] + places[1];
}"""
    (sort,) = of(text, "sort")
    assert len(sort.results) == 2


def test_a_range_of_the_numbers_that_are_left_to_a_thread_of_the_grid() -> None:
    text = """template <int N> __global__ void k(float* out, const float* x, int size, int wide) {
    for (int i : tv::KernelLoopX<int, N>(size))
        for (int j : tv::KernelLoopY<int>(wide)) out[i * wide + j] = x[i];
}"""
    assert not of(text, "opaque")
    assert [op.inputs[1] for op in of(text, "range")] == ["size", "wide"]
    other = text.replace("tv::KernelLoopY<int>(wide)", "columns(wide)")
    assert len(of(other, "range")) == len(of(other, "opaque")) == 1


DETECTED = """template <typename T> struct Of {};
template <> struct Of<half2> {
    static constexpr bool has = true;
    static __device__ half2 most(const half2& a, const half2& b) { return __hmax2(a, b); }
};
template <typename T, typename = void> struct Has : std::false_type {};
template <typename T> struct Has<T, std::void_t<decltype(Of<T>::has)>> : std::true_type {};
template <typename T> __global__ void k(T* x) {
    if constexpr (Has<T>::value) x[0] = Of<T>::most(x[1], x[2]); else x[0] = x[1];
}
"""


def test_whether_a_member_is_there_is_told_by_the_instantiation() -> None:
    assert len(of(DETECTED, "store")) == 2
    plain = DETECTED.replace("std::void_t<decltype(Of<T>::has)>", "int")
    assert len(of(plain, "store")) == 1
