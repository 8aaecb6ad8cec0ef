"""Decisions of TileGym 1.5.1 `_fmha_kernel` in short form, after the gold annotation."""

from __future__ import annotations

from kb.donor import Donor, donor_from_decisions
from kb.evidence import AxisKind, Decision
from kb.space import GuardedPoints, Tuning

KERNEL = (
    "https://w3id.org/tilelore/kernel/tilegym/ops/cutile/attention.py/_fmha_kernel/0011223344556677"
)
FILE = "tilegym/ops/cutile/attention.py"

ROWS: tuple[tuple[str, str, str, tuple[tuple[int, int], ...]], ...] = (
    ("work_decomposition", "one tile per CTA", "one-output-tile-per-cta", ((92, 93), (160, 160))),
    (
        "grid_mapping",
        "batch*heads on one axis",
        "flattened-outer-batch-grid-axis-with-div-mod-decode",
        ((65, 66),),
    ),
    (
        "kv_head_mapping",
        "integer-division sharing",
        "gqa-head-sharing-by-integer-division",
        ((67, 67),),
    ),
    ("stationary_operand", "Q-stationary (loop KV)", "stationary-operand-choice", ((90, 95),)),
    (
        "loop_carried_state",
        "accumulator, sum and maximum",
        "accumulator-carried-through-a-reduction-loop",
        ((82, 84), (155, 156)),
    ),
    ("softmax_scheme", "online (1 pass)", "online-softmax", ((136, 136), (142, 146))),
    ("softmax_scheme", "divide once in the epilogue", "deferred-normalisation", ((158, 158),)),
    (
        "math_approximation",
        "exp2 with log2e folded into the scale",
        "base-2-exponential-with-folded-log2",
        ((28, 28), (70, 70), (140, 142)),
    ),
    (
        "scale_placement",
        "scale folded into (s*scale - m) FMA",
        "scale-applied-after-the-max-reduce",
        ((135, 137),),
    ),
    ("mask_application", "additive -inf", "mask-realisation", ((132, 133),)),
    (
        "tail_handling",
        "constexpr EVEN flag removes mask",
        "divisibility-specialisation",
        ((127, 131),),
    ),
    (
        "mask_placement",
        "single loop + iv>=bound branch (compiler splits)",
        "masked-unmasked-iteration-split",
        ((102, 104), (123, 123)),
    ),
    (
        "loop_extent",
        "upper bound clipped (causal)",
        "loop-bounds-clipped-by-mask-structure",
        ((98, 98), (105, 105)),
    ),
    (
        "operand_layout",
        "transpose in the load view (order=)",
        "transposed-operand-via-view-order-vs-in-register-permute",
        ((112, 119),),
    ),
    ("accum_dtype", "fp32", "fp32-accumulation-of-low-precision-mma", ((82, 84), (120, 121))),
    (
        "intermediate_dtype",
        "cast P to input dtype",
        "intermediate-downcast-before-the-second-mma",
        ((141, 141), (154, 155)),
    ),
    ("denormal_mode", "ftz", "flush-to-zero-on-transcendental-arith-ops", ((140, 140), (142, 142))),
    ("rounding_mode", "approx", "approximate-division-transcendental", ((158, 158),)),
    ("boundary_handling", "ZERO", "out-of-bounds-padding-policy", ((87, 89),)),
    (
        "boundary_handling",
        "implicit clip by array bounds",
        "implicit-store-clipping",
        ((160, 160),),
    ),
    (
        "access_mode",
        "tile-indexed (TMA-able) load",
        "access-mode-tile-indexed-bulk-vs-element-gather",
        ((90, 95), (112, 119)),
    ),
    ("tile_padding", "exact extent", "power-of-two-tile-padding-of-an-extent", ((46, 46),)),
    ("index_width", "int32", "32-bit-index-arithmetic", ((73, 73), (78, 78))),
)
OTHER: tuple[tuple[str, str, AxisKind, str, tuple[tuple[int, int], ...]], ...] = (
    (
        "prefetch_depth",
        "per-load latency 1..10",
        AxisKind.TUNING,
        "software-pipelining-depth-hint-per-memory-op",
        ((117, 117), (152, 152)),
    ),
    ("occupancy", "fixed", AxisKind.TUNING, "occupancy-hint", ((821, 821),)),
    (
        "specialization",
        "constexpr",
        AxisKind.HOST,
        "problem-extents-as-compile-time-constants",
        ((44, 52),),
    ),
    (
        "autotuning",
        "exhaustive_search",
        AxisKind.HOST,
        "exhaustive-search-with-memoised-winner",
        ((797, 823),),
    ),
    (
        "layout_contract",
        ".contiguous() on host",
        AxisKind.HOST,
        "host-contiguity-alignment-normalisation",
        ((857, 859),),
    ),
)

DECISIONS = (
    *(
        Decision(axis=axis, value=value, pattern=pattern, lines=lines, file=FILE)
        for axis, value, pattern, lines in ROWS
    ),
    *(
        Decision(axis=axis, value=value, kind=kind, pattern=pattern, lines=lines, file=FILE)
        for axis, value, kind, pattern, lines in OTHER
    ),
)

TUNING = Tuning(
    mechanism="exhaustive_search",
    spaces=(
        GuardedPoints(
            when="always",
            points=(
                (("TILE_M", 256), ("TILE_N", 128), ("num_ctas", 1), ("occupancy", 1)),
                (("TILE_M", 128), ("TILE_N", 128), ("num_ctas", 1), ("occupancy", 2)),
            ),
        ),
    ),
)


def fmha_donor() -> Donor:
    """The kernel as a donor."""
    return donor_from_decisions(
        DECISIONS, name="_fmha_kernel", operation="fmha", kernel=KERNEL, tuning=TUNING
    )
