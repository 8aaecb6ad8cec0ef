# ruff: noqa: E501
"""A sample kernel of CUDA C++ over CuTe's tensors: attention. Written for this purpose."""

from __future__ import annotations

FLASH_TENSORS = """#include <cute/tensor.hpp>
using namespace cute;
struct Traits {
    using TiledMma = TiledMMA<MMA_Atom<SM80_16x8x16_F32F16F16F32_TN>, Layout<Shape<_4, _1, _1>>>;
    using Rows = decltype(composition(Swizzle<3, 3, 3>{}, Layout<Shape<_8, _64>>{}));
    using Kept = decltype(tile_to_shape(Rows{}, Shape<_64, _64>{}));
    using Moves = decltype(make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, half>{}, Layout<Shape<_16, _8>>{}));
    using Loads = Copy_Atom<SM75_U32x4_LDSM_N, half>;
    using Turned = Copy_Atom<SM75_U16x8_LDSM_T, half>;
};
template <bool masked, typename S, typename O, typename R>
__device__ void step(S& s, O& acc, R& top, R& tot, float rate, int row, int col) {
    Tensor rows = make_tensor(s.data(), s.layout());
    Tensor sums = make_tensor(acc.data(), acc.layout());
    if constexpr (masked) {
        for (int i = 0; i < size<0>(rows); ++i)
            for (int j = 0; j < size<1>(rows); ++j)
                if (col + j > row + i * 8) rows(i, j) = -INFINITY;
    }
    for (int i = 0; i < size(top); ++i) {
        float before = top(i);
        for (int j = 0; j < size<1>(rows); ++j) top(i) = max(top(i), rows(i, j));
        for (int o = 2; o > 0; o >>= 1) top(i) = max(top(i), __shfl_xor_sync(0xffffffff, top(i), o));
        float fade = exp2f((before - top(i)) * rate);
        tot(i) *= fade;
        for (int j = 0; j < size<1>(sums); ++j) sums(i, j) *= fade;
        for (int j = 0; j < size<1>(rows); ++j) {
            rows(i, j) = exp2f(rows(i, j) * rate - top(i) * rate);
            tot(i) += rows(i, j);
        }
    }
}
__global__ void attend(const half* q, const half* k, const half* v, half* out, float rate, int length) {
    extern __shared__ char kept[];
    Tensor mQ = make_tensor(make_gmem_ptr(q), make_shape(length, 64), make_stride(64, _1{}));
    Tensor mK = make_tensor(make_gmem_ptr(k), make_shape(length, 64), make_stride(64, _1{}));
    Tensor mV = make_tensor(make_gmem_ptr(v), make_shape(length, 64), make_stride(64, _1{}));
    Tensor gQ = local_tile(mQ, Shape<_64, _64>{}, make_coord(blockIdx.x, 0));
    Tensor gK = local_tile(mK, Shape<_64, _64>{}, make_coord(_, 0));
    Tensor gV = local_tile(mV, Shape<_64, _64>{}, make_coord(_, 0));
    Tensor sQ = make_tensor(make_smem_ptr(reinterpret_cast<half*>(kept)), Traits::Kept{});
    Tensor sK = make_tensor(sQ.data() + size(sQ), Traits::Kept{});
    Tensor sV = make_tensor(sK.data() + size(sK), Traits::Kept{});
    Traits::Moves moves;
    auto mine = moves.get_thread_slice(threadIdx.x);
    Traits::TiledMma product;
    auto own = product.get_thread_slice(threadIdx.x);
    auto loads = make_tiled_copy_A(Traits::Loads{}, product);
    auto part = loads.get_thread_slice(threadIdx.x);
    auto turned = make_tiled_copy_B(Traits::Turned{}, product);
    auto other = turned.get_thread_slice(threadIdx.x);
    Tensor rQ = own.partition_fragment_A(sQ);
    Tensor rK = own.partition_fragment_B(sK);
    Tensor rV = own.partition_fragment_B(sV);
    Tensor acc = partition_fragment_C(product, Shape<_64, _64>{});
    Tensor top = make_tensor<float>(Shape<_2>{});
    Tensor tot = make_tensor<float>(Shape<_2>{});
    clear(acc);
    clear(tot);
    fill(top, -INFINITY);
    copy(moves, mine.partition_S(gQ), mine.partition_D(sQ));
    Tensor tKgK = mine.partition_S(gK);
    Tensor tVgV = mine.partition_S(gV);
    int t = blockIdx.x;
    int row = blockIdx.x * 64 + threadIdx.x / 4;
    for (int masks = 0; masks < 1; ++masks, --t) {
        copy(moves, tKgK(_, _, _, t), mine.partition_D(sK));
        copy(moves, tVgV(_, _, _, t), mine.partition_D(sV));
        cp_async_fence();
        cp_async_wait<0>();
        __syncthreads();
        Tensor s = partition_fragment_C(product, Shape<_64, _64>{});
        clear(s);
        copy(loads, part.partition_S(sQ), rQ);
        copy(loads, part.partition_S(sK), rK);
        gemm(product, rQ, rK, s);
        step<true>(s, acc, top, tot, rate, row, t * 64 + threadIdx.x % 4 * 2);
        Tensor p = make_tensor_like<half>(s);
        copy(s, p);
        copy(turned, other.partition_S(sV), rV);
        gemm(product, p, rV, acc);
        __syncthreads();
    }
    for (; t >= 0; --t) {
        copy(moves, tKgK(_, _, _, t), mine.partition_D(sK));
        copy(moves, tVgV(_, _, _, t), mine.partition_D(sV));
        cp_async_fence();
        cp_async_wait<0>();
        __syncthreads();
        Tensor s = partition_fragment_C(product, Shape<_64, _64>{});
        clear(s);
        copy(loads, part.partition_S(sQ), rQ);
        copy(loads, part.partition_S(sK), rK);
        gemm(product, rQ, rK, s);
        step<false>(s, acc, top, tot, rate, row, 0);
        Tensor p = make_tensor_like<half>(s);
        copy(s, p);
        copy(turned, other.partition_S(sV), rV);
        gemm(product, p, rV, acc);
        __syncthreads();
    }
    Tensor sums = make_tensor(acc.data(), acc.layout());
    for (int i = 0; i < size(tot); ++i)
        for (int j = 0; j < size<1>(sums); ++j) sums(i, j) /= tot(i);
    Tensor mO = make_tensor(make_gmem_ptr(out), make_shape(length, 64), make_stride(64, _1{}));
    Tensor gO = local_tile(mO, Shape<_64, _64>{}, make_coord(blockIdx.x, 0));
    Tensor rO = make_tensor_like<half>(acc);
    copy(acc, rO);
    copy(rO, own.partition_C(gO));
}
"""
"""Causal attention, one tile of queries to a block: the tile on the diagonal first, with its mask,
then those before it."""

FLASH_ANEW = FLASH_TENSORS.replace("for (; t >= 0; --t)", "for (t = 7; t >= 0; --t)")
"""The same, where the second loop does not go on where the first one ends."""

FLASH_CAPPED = FLASH_TENSORS.replace(
    "__global__ void attend(", "template <bool capped> __global__ void attend("
).replace(
    "        step<",
    "        if constexpr (capped)\n"
    "            for (int i = 0; i < size(s); ++i) s(i) = tanhf(s(i) * 0.02f);\n        step<",
)
"""The same, where a flag holds scores below a bound."""

ROWS_TENSORS = """#include <cute/tensor.hpp>
using namespace cute;
template <bool EVEN, typename C, typename S, typename D, typename I>
__device__ void copy(C moves, S const& from, D& to, I const& places, int rows) {
    #pragma unroll
    for (int m = 0; m < size<1>(from); ++m) {
        if (EVEN || get<0>(places(0, m, 0)) < rows) {
            #pragma unroll
            for (int k = 0; k < size<2>(from); ++k) cute::copy(moves, from(_, m, k), to(_, m, k));
        }
    }
}
template <bool EVEN>
__global__ void gather(const float* x, const int* starts, float* out, int width) {
    using Moves = decltype(make_tiled_copy(
        Copy_Atom<AutoVectorizingCopyWithAssumedAlignment<128>, float>{}, Layout<Shape<_16, _8>>{}));
    Moves moves;
    auto mine = moves.get_thread_slice(threadIdx.x);
    Tensor places = mine.partition_S(make_identity_tensor(make_shape(_64{}, _64{})));
    Tensor mO = make_tensor(make_gmem_ptr(out), make_shape(1 << 20, width), make_stride(width, _1{}));
    Tensor gO = local_tile(mO, Shape<_64, _64>{}, make_coord(blockIdx.x, 0));
    Tensor tOgO = mine.partition_D(gO);
    Tensor sum = make_tensor<float>(shape(tOgO));
    clear(sum);
    int t = starts[blockIdx.x], last = starts[blockIdx.x + 1];
    if (last <= t) {
        copy<EVEN>(moves, sum, tOgO, places, width);
        return;
    }
    for (; t < last; ++t) {
        Tensor mX = make_tensor(make_gmem_ptr(x), make_shape(1 << 20, width), make_stride(width, _1{}));
        Tensor gX = local_tile(mX, Shape<_64, _64>{}, make_coord(t, 0));
        Tensor tXgX = mine.partition_S(gX);
        Tensor part = make_tensor<float>(shape(tXgX));
        copy<EVEN>(moves, tXgX, part, places, width);
        for (int i = 0; i < size(sum); ++i) sum(i) += part(i);
    }
    copy(sum, tOgO);
}
"""
"""Sums of tiles between two loaded places, by a copy of the file that checks rows unless told not
to."""
