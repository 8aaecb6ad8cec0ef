"""What becomes of decisions that Triton has no word for: dropped, open again as a tuning axis, or
written out.
"""

from __future__ import annotations

from collections.abc import Mapping

DROPPED = "dropped"
OPERANDS: Mapping[str, tuple[str, str]] = {
    "latency": ("prefetch_depth", "open again as num_stages, one for the whole kernel"),
    "allow_tma": ("copy_engine", "open again as access_mode"),
    "ftz": ("denormal_mode", DROPPED),
    "rounding": ("rounding_mode", DROPPED),
    "propagate_nan": ("rounding_mode", DROPPED),
    "memory_order": ("synchronization", DROPPED),
    "memory_scope": ("synchronization", DROPPED),
    "fast_acc": ("accum_dtype", DROPPED),
}
"""Operands that Triton has no word for: the axis of the decision, and what becomes of it."""

_HINTS = {
    "occupancy": "open again as occupancy, a bound on registers",
    "num_ctas": "open again as num_ctas",
    "num_worker_warps": "open again as num_warps",
}


def of_operand(role: str, what: str) -> str:
    """The note on an operand, such as `latency=2 of load_tile at line 9`."""
    axis, fate = OPERANDS[role]
    return f"{axis}: {what}; {fate}"


def of_hint(key: str, value: object) -> str:
    """The note on a hint of the kernel as a whole."""
    return f"{key}: kernel hint {value}; {_HINTS.get(key, DROPPED)}"


def of_padding(line: int) -> str:
    """The note on padding that the source leaves open."""
    return f"boundary_handling: undetermined padding became zero at line {line}"


SPLIT = "loop_structure: the loop that the compiler of cuTile splits at a bound is written as two"
TENSOR_FLOAT = "mma_operand_precision: tf32 operands became input_precision"
