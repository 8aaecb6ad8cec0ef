"""CUB's loads and stores of a block, as what every thread moves."""

from __future__ import annotations

import pytest

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound

_MOVED = """#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
__global__ void twice(const int* x, int* out, int n) {
    using Loader = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_VECTORIZE>;
    using Keeper = cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_DIRECT>;
    __shared__ typename Loader::TempStorage room;
    __shared__ typename Keeper::TempStorage other;
    int own[4];
    Loader(room).Load(x + blockIdx.x * 512, own);
    for (int i = 0; i < 4; ++i) own[i] *= 2;
    Keeper(other).Store(out + blockIdx.x * 512, own);
}
"""


def test_a_run_is_one_vector_where_all_of_it_is_there() -> None:
    kernel = sound(_MOVED)
    assert not ops(kernel, OpKind.OPAQUE)
    (load,) = ops(kernel, OpKind.LOAD)
    assert load.results[0].type is not None
    assert load.results[0].type.shape == ("4",)
    assert len(ops(kernel, OpKind.STORE)) == 4, "a direct store moves one element after the other"


@pytest.mark.parametrize("rest", [", n", ", n, 0"])
def test_under_a_count_every_element_is_asked_for(rest: str) -> None:
    kernel = sound(_MOVED.replace("512, own);\n    for", f"512, own{rest});\n    for"))
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.LOAD)) == len(ops(kernel, OpKind.IF_EXPRESSION)) == 4


def test_a_store_under_a_count_asks_for_every_element() -> None:
    kernel = sound(_MOVED.replace("512, own);\n}", "512, own, n);\n}"))
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.STORE)) == len(ops(kernel, OpKind.IF)) == 4


_BY_TRAITS = """#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
template <int N_, typename T_> struct Traits {
    using T = T_;
    static constexpr int N = N_;
    using Vector = uint4;
    using Loader = cub::BlockLoad<T, 128, N, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Keeper = cub::BlockStore<Vector, 128, 1, cub::BLOCK_STORE_DIRECT>;
};
template <typename K> __global__ void twice(typename K::T* x, typename K::T* out, int n) {
    using T = typename K::T;
    using Vector = typename K::Vector;
    constexpr int N = K::N;
    __shared__ typename K::Loader::TempStorage room;
    __shared__ typename K::Keeper::TempStorage other;
    T own[2 * N] = {0};
    typename K::Loader(room).Load(x, *reinterpret_cast<T (*)[N]>(&own[N]), n);
    T made[N];
    for (int i = 0; i < N; ++i) made[i] = own[N + i] * 2;
    typename K::Keeper(other).Store(reinterpret_cast<Vector*>(out),
                                    reinterpret_cast<Vector (&)[1]>(made), n / N);
}
template <typename T> void launch(T* x, T* out, int n) {
    using K = Traits<4, T>;
    auto kernel = &twice<K>;
    kernel<<<1, 128>>>(x, out, n);
}
"""


def test_a_run_of_a_length_by_traits_is_a_loop_into_a_part_of_an_array() -> None:
    kernel = sound(_BY_TRAITS)
    assert not ops(kernel, OpKind.OPAQUE)
    (load,) = ops(kernel, OpKind.LOAD)
    (store,) = ops(kernel, OpKind.STORE)
    assert load.span.line == 17
    assert store.span.line == 20
    assert [op.span.line for op in ops(kernel, OpKind.STATIC_RANGE)][:1] == [17]


@pytest.mark.parametrize("count", ["400", "-1"])
def test_what_is_not_known_stays_unread(count: str) -> None:
    text = _MOVED.replace("<int, 128, 4, cub::BLOCK_LOAD", f"<int, 128, {count}, cub::BLOCK_LOAD")
    assert text != _MOVED
    assert ops(sound(text), OpKind.OPAQUE)


_SIDES = """enum class Side { kOne, kTwo };
template <Side side> struct Shared {
    int* base;
    __device__ Shared(int* p) : base(p) {}
    __device__ int at(int i) {
        if constexpr (side == Side::kOne) { return i ^ 1; } else { return i ^ 2; }
    }
};
template <Side SIDE> struct Traits { static constexpr Side kSide = SIDE; };
template <typename K> __global__ void move(int* x) {
    __shared__ int own[64];
    constexpr Side kSide = K::kSide;
    Shared<%s> room(own);
    x[room.at(threadIdx.x)] = UINT32_C(7);
}
void launch(int* x) { auto kernel = &move<Traits<Side::kOne>>; kernel<<<1, 64>>>(x); }
"""


@pytest.mark.parametrize("given", ["K::kSide", "kSide", "Side::kTwo"])
def test_a_struct_that_takes_a_value_gets_one(given: str) -> None:
    kernel = sound(_SIDES % given)
    assert not ops(kernel, OpKind.OPAQUE)
    assert ops(kernel, OpKind.BIT_XOR)
