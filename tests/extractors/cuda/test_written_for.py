"""Functions that are written for single template arguments, and what headers and groups tell."""

from __future__ import annotations

import pytest

from extractors.cuda.launches import host_facts
from extractors.cuda.read import read_cuda
from kb.ir import Op, kernel_ops
from kb.ops import OpKind

WORDS = """template <int Bytes> __device__ void fetch(void* to, const void* from);
template <> __device__ void fetch<16>(void* to, const void* from) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
}
template <> __device__ void fetch<4>(void* to, const void* from) {
    *reinterpret_cast<unsigned*>(to) = *reinterpret_cast<const unsigned*>(from);
}
template <typename T> __global__ void k(const T* x, T* out) {
    constexpr int bytes = 16;
    T part[bytes / sizeof(T)];
    fetch<bytes>(part, x + threadIdx.x * 8);
    out[threadIdx.x] = part[0];
}
"""
NUMBERS = """template <typename To, typename From> __device__ To as(From v) { return as(v); }
template <> __device__ float as(float v) { return v; }
template <> __device__ float as(__half v) { return __half2float(v); }
template <> __device__ __half as(float v) { return __float2half(v); }
template <typename T> __global__ void k(const T* x, float* out) {
    out[threadIdx.x] = as<float>(x[threadIdx.x]) * 2.f;
}
"""
PLACES = """namespace cg = cooperative_groups;
__global__ void k(const float* x, float* out, int n) {
    cg::thread_block block = cg::this_thread_block();
    unsigned i = cg::this_grid().thread_rank();
    if (i < n) out[i] = x[block.group_index().y * n + block.thread_index().x];
}
"""
GUARDED = """__global__ void k(const float* x, float* out, int n) {
    float4 v;
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
                 " mov.b32 %2, 0; mov.b32 %3, 0; @p ld.global.v4.f32 {%0, %1, %2, %3}, [%4]; }"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(x + threadIdx.x * 4), "r"((int)(threadIdx.x < n)));
    out[threadIdx.x] = v.x;
}
"""
KEPT = """__global__ void k(const float* x, float* out, unsigned long long keep) {
    float a[4];
    asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(a[0]), "=f"(a[1]), "=f"(a[2]), "=f"(a[3])
                 : "l"(x + threadIdx.x * 4), "l"(keep));
    asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::
                 "l"(out + threadIdx.x * 4), "f"(a[3]), "f"(a[2]), "f"(a[1]), "f"(a[0]), "l"(keep));
}
"""
TYPES = """__global__ void add(float* out, const float* x) { out[threadIdx.x] = x[threadIdx.x]; }
__global__ void add(half* out, const half* x) { out[threadIdx.x] = x[threadIdx.x]; }
void go(float* out, const float* x) { add<<<1, 64>>>(out, x); }
void go(half* out, const half* x) { add<<<1, 128>>>(out, x); }
template <typename T> void any(T* out, const T* x) { add<<<1, 64>>>(out, x); }
"""


def ops(text: str, *kinds: OpKind) -> list[Op]:
    (kernel,) = read_cuda(text, "k.cu").kernels
    return [op for op in kernel_ops(kernel) if op.kind in kinds]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WORDS, id="by a number"),
        pytest.param(NUMBERS, id="by a type that it gives"),
        pytest.param(PLACES, id="places that groups tell"),
        pytest.param(GUARDED, id="a load under a predicate"),
    ],
)
def test_nothing_stays_opaque(text: str) -> None:
    assert ops(text, OpKind.OPAQUE, OpKind.INLINE_ASM) == []


def test_the_specialisation_for_the_argument_is_read() -> None:
    wide = ops(WORDS, OpKind.LOAD)[0]
    assert wide.results[0].type is not None
    assert wide.results[0].type.shape == ("4",)


def test_a_guarded_load_is_masked_and_zero_elsewhere() -> None:
    (load,) = ops(GUARDED, OpKind.LOAD)
    assert [role for role, _ in load.operands] == ["pointer", "mask", "other"]


OPEN = WORDS.replace("constexpr int bytes = 16;", "constexpr int bytes = sizeof(T) * 4;")
BY_TYPE = """template <typename T, int N> __device__ void fetch(float* to, const T* from);
template <> __device__ void fetch<float, 4>(float* to, const float* from) {
    float4 v = *reinterpret_cast<const float4*>(from);
    to[0] = v.x; to[1] = v.y; to[2] = v.z; to[3] = v.w;
}
template <> __device__ void fetch<half, 8>(float* to, const half* from) {
    uint4 v = *reinterpret_cast<const uint4*>(from);
    for (int i = 0; i < 8; ++i) to[i] = __half2float(reinterpret_cast<const half*>(&v)[i]);
}
template <typename T> __global__ void k(const T* x, float* out) {
    constexpr int N = 16 / sizeof(T);
    float part[N];
    fetch<T, N>(part, x + threadIdx.x * N);
    out[threadIdx.x] = part[0];
}
"""


@pytest.mark.parametrize("text", [OPEN, BY_TYPE], ids=["a number", "a type and a number"])
def test_specialisations_for_what_is_open_are_read_beside_each_other(text: str) -> None:
    assert not ops(text, OpKind.OPAQUE)
    assert len(ops(text, OpKind.LOAD)) == 2
    assert len(ops(text, OpKind.IF)) == 1


def test_specialisations_that_name_their_parameters_apart_are_not_guessed() -> None:
    text = OPEN.replace(
        "fetch<4>(void* to, const void* from)", "fetch<4>(void* from, const void* to)"
    )
    assert [op.attribute("what") for op in ops(text, OpKind.OPAQUE)] == ["fetch"]


def test_overloads_are_launched_with_their_types() -> None:
    found = host_facts(read_cuda(TYPES, "k.cu"))
    blocks = {name: {one.hints for one in facts.launches} for name, facts in found.items()}
    assert blocks == {
        "add": {(("block_x", 64),)},
        "add_2": {(("block_x", 128),), (("block_x", 64),)},
    }


def test_a_header_knows_the_macros_that_it_includes() -> None:
    files = {
        "words.h": "#ifndef W\n#define W\n#define ON __device__\n#endif\n",
        "twice.h": '#include "words.h"\ntemplate <typename T> ON T twice(T v) { return v + v; }\n',
    }
    text = '#include "twice.h"\n__global__ void k(float* x) { x[threadIdx.x] = twice(1.f); }\n'
    for _ in range(2):
        (kernel,) = read_cuda(text, "k.cu", lambda _, name: (name, files[name])).kernels
        assert all(op.kind is not OpKind.OPAQUE for op in kernel_ops(kernel))


def test_what_a_cache_should_keep_is_no_address_and_no_value() -> None:
    load, store = ops(KEPT, OpKind.LOAD, OpKind.STORE)
    assert [role for role, _ in load.operands] == ["pointer"]
    assert [value.type.shape for value in load.results if value.type] == [("4",)]
    assert [role for role, _ in store.operands] == ["pointer", "value"]
