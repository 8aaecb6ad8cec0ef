"""Arrays that must lie alike: one set of strides addresses them all."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import COMPARISONS

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
        shared = shared_strides(facts) if facts.program is facts.source else set()
        if len(shared) > 1:
            where: list[Where] = [*facts.declared(*shared)]
            yield self.decide(facts, "strides as arguments", where, ", ".join(sorted(shared)))


def shared_strides(facts: Facts) -> set[str]:
    """Parameters that are strides of several arrays and nothing else."""
    users: dict[str, set[str]] = {}
    for access in facts.accesses:
        if access.mode is not Mode.POINTER or access.array is None:
            continue
        for name in access.strides & given_strides(facts):
            users.setdefault(name, set()).add(access.array)
    return {name for name, arrays in users.items() if len(arrays) > 1}


def given_strides(facts: Facts) -> set[str]:
    """Parameters of the launch that may be strides: numbers that no position is compared with."""
    kinds = (ParameterKind.UNTOLD, ParameterKind.SCALAR)
    return {p.name for p in facts.kernel.entry.parameters if p.kind in kinds} - compared(facts)


def compared(facts: Facts) -> set[str]:
    """Parameters that positions are compared with: extents."""
    atoms = {a for expr in compared_with(facts) for a in expr.atoms()}
    return {a.value for a in atoms if a.kind is AtomKind.PARAMETER}


def compared_with(facts: Facts) -> list[Expr]:
    """Both sides of comparisons, but of those with a constant."""
    pairs = [[facts.values.expr(v) for v in n.op.inputs] for n in facts.graph.of(*COMPARISONS)]
    return [x for pair in pairs if all(y.constant is None for y in pair) for x in pair]
