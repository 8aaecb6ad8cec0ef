"""Arrays that may lie in any order: every axis has a stride that is handed in."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER
from kb.analysis.facts import Facts
from kb.analysis.strides import free_strides, loaded_strides, promised, shared_strides
from kb.evidence import Decision

_GIVEN = vary(
    PRODUCT_POINTER,
    ("sa, sb, so,", "sa, ta, sb, tb, so, to,"),
    ("m[:, None] * sa + k[None, :]", "m[:, None] * sa + k[None, :] * ta"),
    ("k[:, None] * sb + n[None, :]", "k[:, None] * sb + n[None, :] * tb"),
)
_BLOCKS = (
    POINTER
    + """
@triton.jit
def move(x, out, rows, cols, down, across, T: tl.constexpr):
    at = tl.make_block_ptr(x, (rows, cols), (down, across), (tl.program_id(0) * T, 0), (T, T), (1, 0))
    to = tl.make_block_ptr(out, (rows, cols), (cols, 1), (tl.program_id(0) * T, 0), (T, T), (1, 0))
    tl.store(to, tl.load(at, boundary_check=(0, 1)), boundary_check=(0, 1))
"""  # noqa: E501
)
_TABLE = vary(
    PRODUCT_POINTER,
    ("(a, b, out, M, N, K, sa, sb, so,", "(a, b, out, M, N, K, table,"),
    ("    k = tl.arange(0, TK)\n",
     "    k = tl.arange(0, TK)\n    sa = tl.load(table)\n    sb = tl.load(table + 1)\n    so = tl.load(table + 2)\n"),  # noqa: E501
)  # fmt: skip


class ArgumentStrides(Pattern):
    """Every axis of an array has a parameter as its stride, or rows of lanes are as far apart as a
    number that is loaded says."""

    name = "strides-of-every-axis-handed-in"
    axis = "layout_contract"
    source = "PyTorch documentation, tensor views: stride; Triton tutorial, Group GEMM"
    matches = (
        Case(_GIVEN, "strides as arguments"),
        Case(_BLOCKS, "strides as arguments"),
        Case(_TABLE, "strides loaded from memory"),
    )
    near_misses = (
        NearMiss(PRODUCT_POINTER, why="the numbers of a row lie side by side"),
        NearMiss(LAYER_NORM_POINTER, why="one stride for rows, columns lie side by side"),
        NearMiss(vary(_BLOCKS, ("(down, across)", "(cols, 1)")), why="strides follow the extents"),
        NearMiss(vary(_TABLE, ("sa = tl.load(table)", "sa = K"), ("sb = tl.load(table + 1)", "sb = N"), ("so = tl.load(table + 2)", "so = N")),  # noqa: E501
                 why="strides follow the extents"),
        NearMiss(ADD_POINTER, why="a flat array has no strides"),
        NearMiss(PRODUCT, why="views know their strides"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        names = free_strides(facts)
        if not names <= shared_strides(facts):
            where: list[Where] = [*facts.declared(*names), *promised(facts)]
            yield self.decide(facts, "strides as arguments", where, ", ".join(sorted(names)))
        made = [facts.graph.producer(name) for name in loaded_strides(facts)]
        if made:
            yield self.decide(facts, "strides loaded from memory", made)
