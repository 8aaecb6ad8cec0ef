"""A small vocabulary for tests: no Turtle is read."""

from __future__ import annotations

from kb.evidence import AxisKind
from kb.vocabulary_model import AxisTerm, ParameterTerm, Vocabulary

DESIGN = ("softmax_scheme", "math_approximation", "accum_dtype", "tail_handling")
TUNING = ("occupancy", "num_warps")
PARAMETERS = ("tile_m", "tile_n", "tile_d", "query_group_size")

VOCABULARY = Vocabulary(
    axes=(
        *(AxisTerm(name=name, kind=AxisKind.DESIGN) for name in DESIGN),
        *(AxisTerm(name=name, kind=AxisKind.TUNING) for name in TUNING),
        AxisTerm(name="mask_placement", kind=AxisKind.DESIGN, aliases=("mask_fusion",)),
        AxisTerm(name="auxiliary_layout", kind=AxisKind.DESIGN, aliases=("lse_storage",)),
        AxisTerm(
            name="prefetch_depth", kind=AxisKind.TUNING, aliases=("load_latency", "num_stages")
        ),
        AxisTerm(name="autotuning", kind=AxisKind.HOST),
    ),
    parameters=tuple(ParameterTerm(name=name, axis="tile_selection") for name in PARAMETERS),
)
