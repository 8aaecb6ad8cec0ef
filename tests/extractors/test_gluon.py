"""Gluon: Triton with layouts, shared memory, copies and warps said by the kernel."""

from __future__ import annotations

from functools import cache

import pytest

from extractors.detect import detect
from extractors.modules import ModuleText
from extractors.opaque import opaque_ops
from extractors.read import read
from generators.emit import emit_program
from kb.errors import CannotEmit
from kb.ir import Kernel, kernel_ops
from kb.ops import OpKind

TEXT = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy as cp
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout, allocate_tensor_memory, tcgen05_mma)
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier, tma, warpgroup_mma, warpgroup_mma_wait)


@gluon.jit
def rows(x, out, n, TM: gl.constexpr, D: gl.constexpr):
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    across: gl.constexpr = gl.SliceLayout(0, tile)
    turned: gl.constexpr = gl.SwizzledSharedLayout(8, 1, PHASES, [1, 0])
    held = gl.allocate_shared_memory(gl.float16, [2, TM, D], turned)
    at = gl.arange(0, TM, layout=gl.SliceLayout(1, tile))[:, None] * D
    at = at + gl.arange(0, D, layout=across)[None, :]
    cp.async_copy_global_to_shared(held.index(0), x + at)
    cp.commit_group()
    acc = gl.zeros([TM], gl.float32, layout=gl.SliceLayout(1, tile))
    for i in range(1, n):
        cp.async_copy_global_to_shared(held.index(i % 2), x + i * TM * D + at)
        cp.commit_group()
        cp.wait_group(1)
        acc += gl.sum(held.index((i + 1) % 2).load(tile).to(gl.float32), 1)
    cp.wait_group(0)
    gl.store(out + gl.arange(0, TM, layout=gl.SliceLayout(1, tile)), acc)


@gluon.jit
def product(a_desc, b_desc, c_desc, K, TM: gl.constexpr, TN: gl.constexpr, TK: gl.constexpr):
    a_held = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_shape, a_desc.layout)
    b_held = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_shape, b_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    row = gl.program_id(0) * TM
    col = gl.program_id(1) * TN
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TN, 16])
    acc = gl.zeros((TM, TN), gl.float32, layout)
    for k in range(0, K, TK):
        mbarrier.expect(ready, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(a_desc, [row, k], ready, a_held)
        tma.async_copy_global_to_shared(b_desc, [col, k], ready, b_held)
        mbarrier.wait(ready, phase=(k // TK) & 1)
        acc = warpgroup_mma(a_held, b_held.permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    c_held = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_shape, c_desc.layout)
    c_held.store(acc.to(c_desc.dtype))
    tma.async_copy_shared_to_global(c_desc, [row, col], c_held)
    tma.store_wait(pendings=0)


@gluon.jit
def fetch(x_desc, held, full, free, n, TM: gl.constexpr, DEPTH: gl.constexpr):
    for i in range(n):
        mbarrier.wait(free.index(i % DEPTH), (i // DEPTH) & 1)
        mbarrier.expect(full.index(i % DEPTH), x_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(
            x_desc, [i * TM, 0], full.index(i % DEPTH), held.index(i % DEPTH))


@gluon.jit
def sums(out, held, full, free, n, tile: gl.constexpr, TM: gl.constexpr, DEPTH: gl.constexpr):
    for i in range(n):
        mbarrier.wait(full.index(i % DEPTH), (i // DEPTH) & 1)
        x = held.index(i % DEPTH).load(tile)
        mbarrier.arrive(free.index(i % DEPTH), count=1)
        at = i * TM + gl.arange(0, TM, layout=gl.SliceLayout(1, tile))
        gl.store(out + at, gl.sum(x.to(gl.float32), 1))


@gluon.jit
def parted(x_desc, out, n, TM: gl.constexpr, D: gl.constexpr, DEPTH: gl.constexpr):
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    held = gl.allocate_shared_memory(x_desc.dtype, [DEPTH, TM, D], x_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    gl.warp_specialize([
        (sums, (out, held, full, free, n, tile, TM, DEPTH)),
        (fetch, (x_desc, held, full, free, n, TM, DEPTH)),
    ], [1], [24])


@gluon.jit
def in_tensor_memory(a_desc, b_desc, c, TM: gl.constexpr, TN: gl.constexpr, TK: gl.constexpr):
    a_held = gl.allocate_shared_memory(gl.bfloat16, [TM, TK], a_desc.layout)
    b_held = gl.allocate_shared_memory(gl.bfloat16, [TK, TN], b_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    acc = allocate_tensor_memory(gl.float32, [TM, TN], TensorMemoryLayout([TM, TN], col_stride=1))
    tma.async_copy_global_to_shared(a_desc, [0, 0], ready, a_held)
    tma.async_copy_global_to_shared(b_desc, [0, 0], ready, b_held)
    mbarrier.wait(ready, 0)
    tcgen05_mma(a_held, b_held, acc, use_acc=False, mbarriers=[ready])
    tile: gl.constexpr = gl.BlockedLayout([1, TN], [32, 1], [4, 1], [0, 1])
    at = gl.arange(0, TM, layout=gl.SliceLayout(1, tile))[:, None] * TN
    at = at + gl.arange(0, TN, layout=gl.SliceLayout(0, tile))[None, :]
    gl.store(c + at, acc.load(tile).to(gl.bfloat16))
"""


@cache
def kernels(text: str = TEXT) -> dict[str, Kernel]:
    found = read(ModuleText("", "k.py", text.replace("PHASES,", "2,"))).kernels
    return {kernel.name: kernel for kernel in found}


def decisions(kernel: Kernel) -> set[tuple[str, str]]:
    return {(decision.axis, decision.value) for decision in detect(kernel).decisions}


def test_functions_that_kernels_call_are_no_kernels() -> None:
    assert {*kernels()} == {"rows", "product", "parted", "in_tensor_memory"}
    assert not [op for kernel in kernels().values() for op in opaque_ops(kernel)]
    assert {kernel.dialect for kernel in kernels().values()} == {"gluon"}
    assert [helper.name for helper in kernels()["parted"].helpers] == ["sums", "fetch"]


@pytest.mark.parametrize(
    ("name", "axis", "value"),
    [
        pytest.param("rows", "copy_engine", "asynchronous copies by threads", id="cp.async"),
        pytest.param("rows", "prefetch_depth", "manual double buffering", id="a group under way"),
        pytest.param("rows", "smem_layout", "xor swizzle", id="swizzled layout"),
        pytest.param("rows", "accum_dtype", "fp32", id="what shared memory hands on is widened"),
        pytest.param("product", "copy_engine", "bulk copies by the copy engine", id="TMA"),
        pytest.param("product", "synchronization", "mbarrier pipeline", id="barriers"),
        pytest.param("product", "prefetch_depth", "num_stages 1", id="one buffer"),
        pytest.param("product", "operand_layout", "permute/transpose the loaded tile", id="turned"),
        pytest.param("parted", "warp_specialization", "producer/consumer", id="roles of warps"),
        pytest.param("parted", "prefetch_depth", "num_stages DEPTH", id="a ring of buffers"),
        pytest.param(
            "in_tensor_memory", "accum_dtype", "fp32, one narrowing cast before the store",
            id="accumulator in tensor memory",
        ),
    ],
)  # fmt: skip
def test_what_the_kernel_says_itself_is_decided(name: str, axis: str, value: str) -> None:
    assert (axis, value) in decisions(kernels()[name])


@pytest.mark.parametrize(
    ("name", "axis", "value"),
    [
        pytest.param("rows", "warp_specialization", "producer/consumer", id="all warps do all"),
        pytest.param("product", "prefetch_depth", "compiler-inferred", id="no compiler decides"),
        pytest.param("product", "smem_layout", "no padding, no swizzle", id="layout of a caller"),
        pytest.param("rows", "reduction_scope", "warp", id="tiles, not threads"),
    ],
)
def test_what_it_leaves_open_is_not_made_up(name: str, axis: str, value: str) -> None:
    assert (axis, value) not in decisions(kernels()[name])


def test_a_layout_without_phases_is_plain() -> None:
    plain = kernels(TEXT.replace("PHASES,", "1,"))["rows"]
    assert ("smem_layout", "no padding, no swizzle") in decisions(plain)


def test_registers_of_a_partition_are_told() -> None:
    (budget,) = (op for op in kernel_ops(kernels()["parted"]) if op.kind == OpKind.REGISTER_BUDGET)
    assert budget.operand("registers") is not None


def test_functions_of_partitions_that_are_not_listed_stay_opaque() -> None:
    text = TEXT.replace("gl.warp_specialize([", "parts = ([").replace("], [1], [24])", "])")
    text = text.replace(
        "\n\n\n@gluon.jit\ndef in_t",
        "\n    gl.warp_specialize(parts, [1])\n\n\n@gluon.jit\ndef in_t",
    )
    (op,) = opaque_ops(kernels(text)["parted"])
    assert op.attribute("what") == "gl.warp_specialize"


def test_a_kernel_is_not_written_and_says_so() -> None:
    with pytest.raises(CannotEmit, match="a kernel read from gluon is not written"):
        emit_program(kernels()["rows"], "gluon")
