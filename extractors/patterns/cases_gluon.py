"""Small kernels in Gluon that the cases of patterns are cut from. Written for this purpose; none is
somebody else's."""

from __future__ import annotations

CONVOLUTION_GLUON = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier, tma, warpgroup_mma, warpgroup_mma_wait,
)

@gluon.jit
def conv(image, filt, out, P: gl.constexpr, Q: gl.constexpr, R: gl.constexpr, S: gl.constexpr,
         C: gl.constexpr, STEP: gl.constexpr, PAD: gl.constexpr, TM: gl.constexpr,
         TN: gl.constexpr, TK: gl.constexpr, LAYOUT: gl.constexpr):
    first = gl.program_id(0) * TM
    col = gl.program_id(1) * TN
    b = first // (P * Q)
    p = first % (P * Q) // Q
    q = first % Q
    left = gl.allocate_shared_memory(image.dtype, image.block_shape, image.layout)
    right = gl.allocate_shared_memory(filt.dtype, filt.block_shape, filt.layout)
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    acc = gl.zeros((TM, TN), dtype=gl.float32, layout=LAYOUT)
    turn = 0
    for k in range(R * S * (C // TK)):
        c = k % (C // TK)
        tap = k // (C // TK)
        mbarrier.expect(done, image.block_type.nbytes + filt.block_type.nbytes)
        tma.async_copy_global_to_shared_im2col(
            image, [b, p * STEP - PAD, q * STEP - PAD, c * TK],
            [(tap // S).to(gl.int16), (tap % S).to(gl.int16)], done, left,
        )
        tma.async_copy_global_to_shared(filt, [col, tap * C + c * TK], done, right)
        mbarrier.wait(done, phase=turn)
        acc = warpgroup_mma(left, right.permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        turn ^= 1
    held = gl.allocate_shared_memory(out.dtype, out.block_shape, out.layout)
    held.store(acc.to(out.dtype))
    tma.async_copy_shared_to_global(out, [first, col], held)
    tma.store_wait(pendings=0)
"""
"""A convolution whose copy engine finds the input of every tap."""

PRODUCT_GLUON = CONVOLUTION_GLUON.replace(
    """        tma.async_copy_global_to_shared_im2col(
            image, [b, p * STEP - PAD, q * STEP - PAD, c * TK],
            [(tap // S).to(gl.int16), (tap % S).to(gl.int16)], done, left,
        )
""",
    "        tma.async_copy_global_to_shared(image, [first, tap * C + c * TK], done, left)\n",
)
"""The same on rows that were written out before: a plain product."""
