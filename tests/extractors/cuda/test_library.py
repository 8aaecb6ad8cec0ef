"""Functions of CUDA's libraries, arrays of pointers, structs seen in shared memory, overloads."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from kb.analysis.facts import Facts
from kb.ir import Kernel, Op, kernel_ops
from kb.ir_parse import parse
from kb.ir_text import to_text

COPIES = """namespace cde = cuda::device::experimental;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void k(const __grid_constant__ CUtensorMap map, const float* in, float* out, int n) {
    __shared__ alignas(128) float buf[256];
    __shared__ Barrier bar;
    cde::cp_async_bulk_tensor_2d_global_to_shared(buf, &map, n, blockIdx.x, bar);
    cde::cp_async_bulk_global_to_shared(buf, in + n, 1024, bar);
    bar.wait_parity(0);
    cde::cp_async_bulk_shared_to_global(out + n, buf, 1024);
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
}
"""
DRAW = """__global__ void k(float* out, unsigned long seed) {
    curandStatePhilox4_32_10_t state;
    curand_init(seed, blockIdx.x, 0, &state);
    out[threadIdx.x] = curand_uniform(&state);
}
"""
SCANNED = """__global__ void k(int* x) {
    typedef cub::BlockScan<int, 128> Scan;
    __shared__ typename Scan::TempStorage room;
    int before, all;
    Scan(room).ExclusiveSum(x[threadIdx.x], before, all);
    x[threadIdx.x] = before + all;
}
"""
COMBINED = """struct Step {
    __device__ float2 operator()(float2 a, float2 b) const {
        return make_float2(b.x * a.x, b.x * a.y + b.y);
    }
};
template <typename Traits>
__global__ void k(const float2* x, float2* out) {
    __shared__ typename Traits::Scan::TempStorage room;
    float2 held[4], all;
    for (int i = 0; i < 4; ++i) held[i] = x[threadIdx.x * 4 + i];
    typename Traits::Scan(room).InclusiveScan(held, held, Step(), all);
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = held[i];
}
template <int N>
struct Threads { using Scan = cub::BlockScan<float2, N>; };
void run(const float2* x, float2* out) { k<Threads<128>><<<1, 128>>>(x, out); }
"""
NAMED_ALIKE = """template <int bits, bool up>
__device__ void round(unsigned& value, unsigned& carried) {
    value += up ? 1u << (bits - 1) : 0u;
    carried = value >> bits;
}
template <int bits>
__global__ void k(unsigned* x) {
    unsigned held = x[threadIdx.x], carried = 0;
    round<bits, true>(held, carried);
    x[threadIdx.x] = carried;
}
"""
POINTERS = """struct Peers { float* at[8]; };
__device__ float first(const float* all[], int i) { return all[0][i]; }
__global__ void k(Peers peers, float* out) {
    const float* all[4];
    for (int i = 0; i < 4; ++i) all[i] = peers.at[i];
    float sum = 0.f;
    for (int i = 0; i < 4; ++i) sum += all[i][threadIdx.x];
    out[threadIdx.x] = sum + first(all, blockIdx.x);
}
"""
SEEN = """struct Room { int count; float part[32]; };
__global__ void k(const float* x, float* out) {
    extern __shared__ char raw[];
    auto& room = reinterpret_cast<Room&>(raw);
    room.part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = room.part[31 - threadIdx.x];
}
"""
OWN = """struct Pair { float key; int place; };
__device__ Pair min(Pair a, Pair b) { return a.key < b.key ? a : b; }
__global__ void k(const float* x, int* out) {
    Pair a = {x[0], 0};
    Pair b = {x[1], 1};
    a = min(a, b);
    out[0] = a.place + min(threadIdx.x, 3);
}
"""
NUMBERS = """__device__ float number(float v) { return v; }
__device__ float number(half v) { return __half2float(v); }
__device__ float number(int8_t v) { return static_cast<float>(v); }
template <typename T>
__global__ void k(const T* x, float* out) { out[0] = number(x[0]); }
"""
OPEN = """template <typename T, int N> struct Pack {
    T data[N];
    __device__ void load(const T* p) { for (int i = 0; i < N; ++i) data[i] = p[i]; }
    __device__ T& operator[](int i) { return data[i]; }
};
template <typename Params, int N>
__global__ void k(Params params, float* out) {
    using T = typename Params::T;
    const T* in = params.in;
    Pack<T, N> v;
    v.load(in + threadIdx.x * N);
    int row = params.rows[blockIdx.x];
    out[row] = params.scales[0];
}
"""


def kernel(text: str) -> Kernel:
    """The last kernel of a text, which its text form gives back."""
    found = read_cuda(text, "k.cu").kernels[-1]
    assert parse(to_text(found)) == found
    return found


def of(text: str, kind: str) -> list[Op]:
    """Operations of a kind."""
    return [op for op in kernel_ops(kernel(text)) if op.kind == kind]


def test_copies_by_the_copy_engine_say_from_where_to_where() -> None:
    tensor, plain, out = of(COPIES, "bulk_copy")
    assert [role for role, _ in tensor.operands] == [
        "target", "descriptor", "offsets", "offsets", "barrier",
    ]  # fmt: skip
    assert [role for role, _ in plain.operands] == ["target", "pointer", "bytes", "barrier"]
    assert [role for role, _ in out.operands] == ["pointer", "source", "bytes"]
    assert len(of(COPIES, "barrier_wait")) == len(of(COPIES, "async_wait")) == 1


def test_a_bulk_copy_to_global_memory_is_a_store() -> None:
    facts = Facts(kernel(COPIES))
    assert [a.array for a in facts.stores] == ["out"]
    assert "in" in {a.array for a in facts.loads}


def test_a_draw_is_a_random_number() -> None:
    (draw,) = of(DRAW, "rand")
    assert draw.results[0].type is not None
    assert draw.results[0].type.dtype == "f32"


def test_a_scan_puts_its_results_into_its_arguments() -> None:
    assert len(of(SCANNED, "cumsum")) == len(of(SCANNED, "reduce_sum")) == 1
    assert not of(SCANNED, "opaque")


def test_a_scan_by_an_operator_puts_its_result_into_its_second_argument() -> None:
    (scan,) = of(COMBINED, "scan")
    facts = Facts(kernel(COMBINED))
    assert scan.attribute("scope") == "block"
    assert all(facts.graph.roots(store.value, "scan") for store in facts.stores)


def test_a_draw_with_a_rate_is_a_whole_number() -> None:
    (draw,) = of(DRAW.replace("curand_uniform(&state)", "curand_poisson(&state, 10)"), "rand")
    assert draw.results[0].type is not None
    assert draw.results[0].type.dtype == "u32"


def test_a_helper_named_like_a_function_of_the_language_gets_its_template_arguments() -> None:
    assert not of(NAMED_ALIKE, "opaque")
    assert of(NAMED_ALIKE, "shift_right")


def test_elements_of_an_array_of_pointers_are_pointers() -> None:
    loads = of(POINTERS, "load")
    assert [op.results[0].type.dtype for op in loads if op.results[0].type] == ["f32", "f32"]
    assert all(op.results[0].type.shape == () for op in loads if op.results[0].type)
    assert not of(POINTERS, "opaque")


def test_a_struct_seen_in_shared_memory_lies_there() -> None:
    spaces = [op.attribute("space") for op in of(SEEN, "store")]
    assert spaces == ["shared", None]
    facts = Facts(kernel(SEEN))
    assert [a.array for a in facts.accesses] == ["x", "out"]


def test_an_overload_for_a_struct_is_not_the_function_of_the_language() -> None:
    assert len(of(OWN, "minimum")) == 1
    assert of(OWN, "lt")


@pytest.mark.parametrize(
    ("body", "cast"), [("return __half2float(v);", 1), ("return __half2float(v) * 2.f;", 0)]
)
def test_overloads_that_only_convert_are_a_conversion(body: str, cast: int) -> None:
    text = NUMBERS.replace("return __half2float(v);", body)
    assert len(of(text, "cast")) == cast
    assert len(of(text, "opaque")) == 1 - cast


def test_what_only_the_instantiation_tells_is_still_loaded() -> None:
    (vector, row) = of(OPEN, "load")
    assert vector.results[0].type is not None
    assert vector.results[0].type.dtype == "dtypeof(Params.T)"
    assert row.results
    assert len(of(OPEN, "extract")) == 1


@pytest.mark.parametrize(
    ("bounds", "options"),
    [
        ("most<A, B>::value", (("max_threads", "most<A, B>::value"),)),
        ("N < 64 ? 256 : 384, 1", (("max_threads", "N < 64 ? 256 : 384"), ("min_blocks", 1))),
    ],
)
def test_launch_bounds_with_angle_brackets(
    bounds: str, options: tuple[tuple[str, object], ...]
) -> None:
    head = "template <class A, class B, int N>\n__global__ void __launch_bounds__"
    found = kernel(f"{head}({bounds}) k(int* x) {{ x[0] = 1; }}\n")
    assert found.entry.options == options


TRAITS = """template <typename T, int N> struct Pack {
    T data[N];
    __device__ void load(const T* p) { for (int i = 0; i < N; ++i) data[i] = p[i]; }
    __device__ T& operator[](int i) { return data[i]; }
};
template <typename T_, int N_> struct Traits {
    using T = T_;
    enum { N = N_ };
    using Vector = Pack<T, N>;
};
template <typename Tr>
__global__ void k(const typename Tr::T* x, float* out, int n) {
    using index_t = typename Tr::T;
    typename Tr::Vector v;
    v.load(x + threadIdx.x);
    out[threadIdx.x] = v[0];
}
template <typename T> void run(const T* x, float* out, int n) {
    using Chosen = Traits<T, 4>;
    k<Chosen><<<1, 32>>>(x, out, n);
}
"""


def test_member_types_of_a_parameter_are_those_of_what_the_host_gives() -> None:
    (load,) = of(TRAITS, "load")
    assert load.results[0].type is not None
    assert load.results[0].type.dtype == "dtypeof(Tr.T)"
    assert len(load.results[0].type.shape) == 1


def test_two_structs_for_one_parameter_say_nothing_of_its_members() -> None:
    second = "void more(const float* x, float* out) { k<Pack<float, 2>><<<1, 32>>>(x, out, 1); }\n"
    assert any(op.attribute("what") == ".load" for op in of(TRAITS + second, "opaque"))
