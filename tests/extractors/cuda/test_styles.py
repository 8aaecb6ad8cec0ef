"""Kernels as people write them by hand, read with what they include: the decisions that they show,
each with a line of the kernel. The kernels are our own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from api.extract import extract_source
from api.sources import SourceFile
from kb.evidence import Decision

STYLES = Path(__file__).parent / "styles"


@cache
def decisions(file: str, kernel: str) -> tuple[Decision, ...]:
    """What is decided in one kernel of a file."""
    found = extract_source(SourceFile(path=STYLES / file, root=STYLES, shown=file))
    return next(k.decisions for k in found.kernels if k.kernel.name == kernel)


SHOWN = [
    ("ln_warp.cu", "layer_norm_warp", "boundary_handling", "early return", 12),
    ("ln_warp.cu", "layer_norm_warp", "reduction_scope", "warp", 21),
    ("ln_warp.cu", "layer_norm_warp", "variance_algorithm", "two-pass centred", 29),
    ("ln_warp.cu", "layer_norm_warp", "row_residency", "multi-pass reload (3 passes)", 40),
    ("ln_warp.cu", "layer_norm_warp", "cache_hint", "streaming (.cs)", 41),
    ("ln_warp.cu", "layer_norm_warp", "side_output", "statistics saved for backward", 24),
    ("ln_warp.cu", "layer_norm_warp", "affine", "weight and bias", 41),
    ("ln_warp.cu", "layer_norm_warp", "num_warps", "block_size threads", 49),
    ("ln_shared.cu", "layer_norm_shared", "norm_kind", "LayerNorm", 41),
    ("ln_shared.cu", "layer_norm_shared", "row_residency", "row staged in shared memory", 27),
    ("ln_shared.cu", "layer_norm_shared", "variance_algorithm", "two-pass centred", 37),
    ("ln_shared.cu", "layer_norm_shared", "vector_width", "128-bit", 27),
    ("ln_shared.cu", "layer_norm_shared", "reduction_scope", "warp", 31),
    ("ln_shared.cu", "layer_norm_shared", "affine", "weight and bias", 49),
    ("softmax.cu", "softmax_block", "softmax_scheme", "safe 3-pass", 39),
    ("softmax.cu", "softmax_block", "reduction_scope", "block", 31),
    ("softmax.cu", "softmax_online", "boundary_handling", "branch around the work", 65),
    ("softmax.cu", "softmax_online", "accum_dtype", "fp64", 69),
    ("softmax.cu", "softmax_pairs", "reduction_scope", "warp", 116),
    ("gemm.cu", "sgemm_naive", "boundary_handling", "branch around the work", 6),
    ("gemm.cu", "sgemm_shared", "smem_layout", "no padding, no swizzle", 19),
    ("gemm.cu", "sgemm_registers", "vector_width", "128-bit", 61),
    ("gemm.cu", "sgemm_registers", "num_warps", "8", 105),
    ("gemm.cu", "sgemm_registers", "occupancy", "fixed 1", 42),
    ("hgemm.cu", "hgemm_mma", "accum_dtype", "fp16", 83),
    ("hgemm.cu", "hgemm_mma", "prefetch_depth", "num_stages STAGES - 1", 86),
    ("hgemm.cu", "hgemm_mma", "copy_engine", "asynchronous copies by threads", 60),
    ("hgemm.cu", "hgemm_mma", "smem_layout", "padded rows", 22),
    ("hgemm.cu", "hgemm_mma", "occupancy", "launch bounds, threads only", 15),
    ("pointwise.cu", "gelu_forward", "index_width", "int32", 6),
    ("pointwise.cu", "gelu_forward", "vector_width", "128-bit", 6),
    ("pointwise.cu", "gelu_backward", "aliasing", "in place (same array loaded and stored)", 30),
    ("pointwise.cu", "adamw", "boundary_handling", "early return", 40),
    ("pointwise.cu", "adamw", "optional_inputs", "None argument", 50),
    ("pointwise.cu", "global_norm_squared", "cross_cta_reduction", "atomics", 83),
    ("pointwise.cu", "embed_backward", "boundary_handling", "access under a branch", 106),
]


@pytest.mark.parametrize(("file", "kernel", "axis", "value", "line"), SHOWN)
def test_a_decision_is_told_with_its_line(
    file: str, kernel: str, axis: str, value: str, line: int
) -> None:
    told = [d for d in decisions(file, kernel) if (d.axis, d.value) == (axis, value)]
    assert any(first <= line <= last for d in told for first, last in d.lines), told


NOT_SHOWN = [
    ("ln_warp.cu", "layer_norm_warp", "reduction_scope", "block"),
    ("ln_shared.cu", "layer_norm_shared", "norm_kind", "RMSNorm"),
    ("ln_shared.cu", "layer_norm_shared", "reduction_split",
     "split, partials stored for a second stage"),
    ("hgemm.cu", "hgemm_mma", "accum_dtype", "fp32"),
    ("pointwise.cu", "gelu_forward", "index_width", "int64 opt-in"),
    ("pointwise.cu", "bias_backward", "determinism", "order depends on atomics"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "kernel", "axis", "value"), NOT_SHOWN)
def test_what_is_not_so_is_not_told(file: str, kernel: str, axis: str, value: str) -> None:
    assert (axis, value) not in {(d.axis, d.value) for d in decisions(file, kernel)}


@pytest.mark.parametrize("file", sorted(path.name for path in STYLES.glob("*.cu")))
def test_nothing_is_opaque(file: str) -> None:
    found = extract_source(SourceFile(path=STYLES / file, root=STYLES, shown=file))
    assert {k.kernel.name: k.opaque for k in found.kernels if k.opaque} == {}
