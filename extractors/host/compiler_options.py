"""What a launch tells the compiler about arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.through import written
from kb.evidence import AxisKind, Decision, Lines

UNFUSED = "products-and-sums-rounded-apart-by-the-compiler"
FUSED = "products-and-sums-joined-by-the-compiler"
FLUSHED = "flush-to-zero-on-transcendental-arith-ops"

_OPTIONS = {
    ("enable_fp_fusion", False): ("rounding_mode", "products and sums rounded apart", UNFUSED),
    ("enable_fp_fusion", True): ("rounding_mode", "products and sums joined, as asked for", FUSED),
    ("enable_reflect_ftz", True): ("denormal_mode", "ftz", FLUSHED),
}
"""Options of a launch with a setting that decides something: an axis, its value, the pattern.
Source: Triton, python/triton/backends/nvidia/compiler.py, class CUDAOptions."""


def arithmetic(material: Material) -> Iterator[Decision]:
    """Options that say how the compiler may round; one that the caller chooses counts as the
    setting that is not the default."""
    known = {name for name, _ in material.signature.params}
    for (option, wanted), (axis, value, pattern) in _OPTIONS.items():
        lines: set[Lines] = set()
        for launch in material.sites():
            given = [*leaves(dict(launch.args).get(option))] if option not in known else []
            if pattern == FUSED:
                told = bool(given) and all(leaf is wanted for leaf in given)
            else:
                told = any(leaf is not None and leaf is not (not wanted) for leaf in given)
            lines |= {*_places(material, launch, option)} if told else set()
        if lines:
            yield Decision(
                axis=axis, value=value, pattern=pattern, lines=tuple(sorted(lines)),
                kind=AxisKind.DESIGN,
            )  # fmt: skip


def _places(material: Material, launch: LaunchRecord, option: str) -> tuple[Lines, ...]:
    """Where an option is written: in the launch, or in what is spread into it."""
    return material.handed(launch, option) or (written(material, launch, option),)
