"""Arrays that must lie alike: one set of strides addresses them all."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from kb.analysis.facts import Facts
from kb.analysis.strides import shared_strides
from kb.evidence import Decision

_PICKED = (
    POINTER
    + """
@triton.jit
def pick(x, index, out, rows, cols, down, across, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * T + tl.arange(0, T)
    own = tl.load(index + row)
    v = tl.load(x + own * down + at * across, mask=at < cols)
    tl.store(out + row * down + at * across, v, mask=at < cols)
"""
)


class StrideSetShared(Pattern):
    """Two or more parameters that serve as nothing but strides address the same two or more
    arrays."""

    name = "one-set-of-strides-for-several-arrays"
    axis = "layout_contract"
    source = "PyTorch documentation, tensor views: stride"
    matches = (Case(_PICKED, "strides as arguments"),)
    near_misses = (
        NearMiss(
            vary(_PICKED, ("across, T", "across, other, far, T"), ("out + row * down + at * across", "out + row * other + at * far")),  # noqa: E501
            why="every array has strides of its own",
        ),
        NearMiss(
            vary(_PICKED, ("at * across", "at"), ("row * down", "row * cols"), ("own * down", "own * cols")),  # noqa: E501
            why="the extent of a row is no stride that was handed in",
        ),
        NearMiss(LAYER_NORM_POINTER, why="every array has its own stride"),
        NearMiss(PRODUCT_POINTER, why="every array has its own strides"),
        NearMiss(PRODUCT, why="views know their strides"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        shared = shared_strides(facts) if not facts.of_threads else set()
        if len(shared) > 1:
            where: list[Where] = [*facts.declared(*shared)]
            where += [a for a in facts.accesses if len(a.strides & shared) > 1]
            yield self.decide(facts, "strides as arguments", where, ", ".join(sorted(shared)))
