"""Tensors of CuTe: what they are in the tile program."""

from __future__ import annotations

import pytest

from extractors.cuda.read import read_cuda
from extractors.patterns.cases_tensors import ROWS_TENSORS
from kb.ir import Kernel, Op, kernel_ops
from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound, understood

PRODUCT = """#include <cute/tensor.hpp>
using namespace cute;
struct Traits {
    using Atom = MMA_Atom<SM80_16x8x16_F32F16F16F32_TN>;
    using TiledMma = TiledMMA<Atom, Layout<Shape<_4, _1, _1>>>;
    using LayoutAtom = decltype(composition(Swizzle<3, 3, 3>{}, Layout<Shape<_8, _64>>{}));
    using SmemLayout = decltype(tile_to_shape(LayoutAtom{}, Shape<_64, _64>{}));
    using Moves = SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>;
    using GmemCopy = decltype(make_tiled_copy(Copy_Atom<Moves, half>{}, Layout<Shape<_16, _8>>{}));
    using SmemCopy = Copy_Atom<SM75_U32x4_LDSM_N, half>;
};
template <typename Acc>
__device__ void scale(Acc& acc, float by) {
    Tensor rows = make_tensor(acc.data(), acc.layout());
    for (int i = 0; i < size<0>(rows); ++i)
        for (int j = 0; j < size<1>(rows); ++j) rows(i, j) *= by;
}
__global__ void product(const half* a, const half* b, float* c, int n, int k, float by) {
    extern __shared__ char kept[];
    Tensor mA = make_tensor(make_gmem_ptr(a), make_shape(n, k), make_stride(k, _1{}));
    Tensor mB = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
    Tensor gA = local_tile(mA, Shape<_64, _64>{}, make_coord(blockIdx.x, _));
    Tensor gB = local_tile(mB, Shape<_64, _64>{}, make_coord(blockIdx.y, _));
    Tensor sA = make_tensor(make_smem_ptr(reinterpret_cast<half*>(kept)), Traits::SmemLayout{});
    Tensor sB = make_tensor(sA.data() + size(sA), Traits::SmemLayout{});
    Traits::GmemCopy moves;
    auto mine = moves.get_thread_slice(threadIdx.x);
    Tensor tAgA = mine.partition_S(gA);
    Tensor tAsA = mine.partition_D(sA);
    Tensor tBgB = mine.partition_S(gB);
    Tensor tBsB = mine.partition_D(sB);
    Traits::TiledMma product;
    auto own = product.get_thread_slice(threadIdx.x);
    Tensor rA = own.partition_fragment_A(sA);
    Tensor rB = own.partition_fragment_B(sB);
    Tensor acc = partition_fragment_C(product, Shape<_64, _64>{});
    clear(acc);
    auto loads = make_tiled_copy_A(typename Traits::SmemCopy{}, product);
    auto part = loads.get_thread_slice(threadIdx.x);
    for (int t = 0; t < k / 64; ++t) {
        cute::copy(moves, tAgA(_, _, _, t), tAsA);
        cute::copy(moves, tBgB(_, _, _, t), tBsB);
        cp_async_fence();
        cp_async_wait<0>();
        __syncthreads();
        copy(loads, part.partition_S(sA), part.retile_D(rA));
        copy(loads, part.partition_S(sB), part.retile_D(rB));
        gemm(product, rA, rB, acc);
        __syncthreads();
    }
    scale(acc, by);
    Tensor mC = make_tensor(make_gmem_ptr(c), make_shape(n, n), make_stride(n, _1{}));
    Tensor gC = local_tile(mC, Shape<_64, _64>{}, make_coord(blockIdx.x, blockIdx.y));
    Tensor ids = make_identity_tensor(make_shape(_64{}, _64{}));
    Tensor cC = own.partition_C(ids);
    if (get<0>(cC(0)) < n - 64 * blockIdx.x) copy(acc, own.partition_C(gC));
}
"""


@pytest.fixture(scope="module")
def product() -> Kernel:
    return understood(PRODUCT)


def test_a_tile_of_a_tensor_over_memory_is_its_address(product: Kernel) -> None:
    """Block, tile and stride are multiplied; the axis of tiles moves with the loop."""
    (loop,) = [op for op in ops(product, OpKind.FOR) if ops_in(op, OpKind.MMA)]
    moved = [
        op for op in ops_in(loop, OpKind.MUL) if loop.regions[0].arguments[0].name in op.inputs
    ]
    assert len(moved) == 2
    assert {op.operand("axis") for op in ops(product, OpKind.BLOCK_ID)}


def test_copies_are_told_by_their_atoms(product: Kernel) -> None:
    copies = ops(product, OpKind.ASYNC_COPY)
    assert [op.attribute("cache") for op in copies] == ["cg", "cg"]
    assert len(ops(product, OpKind.MATRIX_LOAD)) == 2
    assert len(ops(product, OpKind.ASYNC_COMMIT)) == len(ops(product, OpKind.ASYNC_WAIT)) == 1
    (store,) = ops(product, OpKind.STORE)
    assert store.attribute("space") is None


def test_a_product_goes_on_with_its_accumulator(product: Kernel) -> None:
    (made,) = ops(product, OpKind.MMA)
    assert (made.attribute("opcode"), made.attribute("shape")) == ("mma.sync", "m16n8k16")
    (loop,) = [op for op in ops(product, OpKind.FOR) if ops_in(op, OpKind.MMA)]
    assert made.operand("acc") in {a.name for a in loop.regions[0].arguments}
    assert made.results[0].type is not None
    assert made.results[0].type.dtype == "f32"


def test_another_layout_of_registers_is_another_name(product: Kernel) -> None:
    """What the helper scales is the accumulator, which is stored."""
    (scaled,) = [op for op in ops(product, OpKind.MUL) if op.operand("rhs") == "by"]
    puts = ops(product, OpKind.INSERT)
    assert scaled.result in {op.operand("value") for op in puts}
    assert any(op.results[0].name.startswith("acc") for op in puts)


def test_memory_that_is_mixed_says_so_where_the_layout_is_written(product: Kernel) -> None:
    tensors = [op for op in ops(product, OpKind.COPY) if op.attribute("layout") == "swizzle"]
    assert len(tensors) == 2
    assert {op.span.line for op in tensors} == {6}


def test_what_a_layout_gives_is_told_with_what_it_depends_on(product: Kernel) -> None:
    (row,) = [op for op in ops(product, OpKind.PARTITION) if op.attribute("what") == "coordinate"]
    assert row.attribute("mode") == "0"
    (compared,) = [op for op in ops(product, OpKind.LT) if row.result in op.inputs]
    assert compared.operand("lhs") == row.result


def test_a_function_of_the_file_is_no_function_of_the_library() -> None:
    text = PRODUCT.replace(
        "template <typename Acc>",
        "template <typename A> __device__ void clear(A& acc) {\n"
        "    for (int i = 0; i < size(acc); ++i) acc(i) = 1.f;\n}\ntemplate <typename Acc>",
        1,
    )
    kernel = understood(text)
    assert not ops(kernel, OpKind.ZEROS)
    assert ops(sound(PRODUCT), OpKind.ZEROS)


def test_the_word_before_a_type_made_in_place_is_no_argument() -> None:
    plain = PRODUCT.replace("typename Traits::SmemCopy{}", "Traits::SmemCopy{}")
    kinds = [
        [op.kind for op in kernel_ops(read_cuda(t, "k.cu").kernels[0])] for t in (PRODUCT, plain)
    ]
    assert kinds[0] == kinds[1]


def ops_in(loop: Op, kind: OpKind) -> list[Op]:
    """The operations of a kind that stand directly in a loop."""
    return [op for region in loop.regions for op in region.ops if op.kind == kind]


def test_a_number_asked_of_a_tensor_by_its_type_is_no_type() -> None:
    text = PRODUCT.replace(
        "    Tensor rows = make_tensor(acc.data(), acc.layout());\n",
        "    Tensor rows = make_tensor(acc.data(), acc.layout());\n"
        "    constexpr int count = decltype(size(rows))::value;\n    by += count;\n",
    )
    assert ops(sound(text), OpKind.MMA)


_HANDED = """template <int N> struct Sizes { static constexpr int rows = N; using Element = half; };
template <typename Traits> __global__ void k(const half* x, half* y) {
    using Element = typename Traits::Element;
    y[threadIdx.x] = static_cast<Element>(x[threadIdx.x] * 2.f);
}
template <typename Traits> void launch(const half* x, half* y) { k<Traits><<<1, 32>>>(x, y); }
void start(const half* x, half* y, int n) {
    if (n < 64) launch<Sizes<64>>(x, y); else launch<OTHER<128>>(x, y);
}
"""


@pytest.mark.parametrize(("other", "known"), [("Sizes", True), ("Others", False)])
def test_a_struct_that_functions_of_the_host_hand_on(other: str, known: bool) -> None:
    """What the kernel's type parameter is stands in the callers of the function that launches."""
    kernel = sound(_HANDED.replace("OTHER", other))
    told = [op for op in ops(kernel, OpKind.DTYPE) if op.attribute("name") == "f16"]
    assert bool(told) is known


def test_a_function_of_the_file_hides_no_copy_with_other_arguments() -> None:
    """It takes five, the library's two or three."""
    stores = ops(understood(ROWS_TENSORS), OpKind.STORE)
    assert {op.attribute("bits") for op in stores} == {128, None}


def test_a_copy_that_a_function_names_is_told_by_its_atom() -> None:
    text = ROWS_TENSORS.replace("<128>", "<64>")
    wide = [op.attribute("bits") for op in ops(understood(text), OpKind.LOAD)]
    assert 64 in wide
    assert 128 not in wide


_BASE = """template <typename T> struct Plain { using Sum = float; using Element = T; };
template <int N, typename T = half, typename Base = Plain<T>> struct Sizes : public Base {
    using Sum = typename Base::Sum;
    using Element = typename Base::Element;
};
template <typename Traits> __global__ void k(const half* x, half* y) {
    using Sum = typename Traits::Sum;
    y[threadIdx.x] = static_cast<Sum>(x[threadIdx.x]);
}
void start(const half* x, half* y) { k<GIVEN><<<1, 32>>>(x, y); }
"""


@pytest.mark.parametrize(
    ("given", "known"), [("Sizes<64>", True), ("Sizes<64, half, Other>", False)]
)
def test_a_member_of_a_base_that_nothing_is_given_for(given: str, known: bool) -> None:
    kernel = sound(_BASE.replace("GIVEN", given))
    told = [op for op in ops(kernel, OpKind.DTYPE) if op.attribute("name") == "f32"]
    assert bool(told) is known


_ENGINE = """#include <cute/tensor.hpp>
using namespace cute;
template <typename To, typename Engine, typename Layout>
__device__ auto converted(Tensor<Engine, Layout> const& of) {
    using From = typename Engine::value_type;
    constexpr int count = decltype(size(of))::value;
    cutlass::NumericArrayConverter<To, From, count> convert;
    auto made = convert(*reinterpret_cast<const cutlass::Array<From, count>*>(of.data()));
    return make_tensor(make_rmem_ptr<To>(&made), of.layout());
}
__global__ void k(float* x, half* y) {
    Tensor v = make_tensor<float>(Shape<_4>{});
    clear(v);
    Tensor w = converted<half>(v);
    y[threadIdx.x] = w(0);
}
"""


def test_the_elements_of_what_a_tensor_lies_in() -> None:
    """Seen as an array of the same elements, it is another name for the same registers."""
    kernel = sound(_ENGINE)
    assert not ops(kernel, OpKind.BITCAST)
    wide = sound(_ENGINE.replace("Engine::value_type", "Layout::value_type"))
    assert ops(wide, OpKind.BITCAST)
